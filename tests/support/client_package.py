"""The client's wheel, and environments with nothing else of the project installed."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from storlet_middleware.aio import cache
from tests.support.cluster import CHECKOUT

PACKAGE = "storlet_client"
#: The oldest version of Python that the client supports.
OLDEST = (3, 9)
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_VERSION = "import sys; print(*sys.version_info[:2])"


def build(out: Path) -> Path:
    """Build the wheel in ``out``; a build writes beside its sources, so it has a copy of them."""
    source = out / "source"
    top = CHECKOUT / PACKAGE
    for path in cache.tree_files(top):
        copy = source / path.relative_to(top)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    run([sys.executable, "-c", _BUILD, str(out)], cwd=source)
    (wheel,) = out.glob("*.whl")
    return wheel


@functools.cache
def interpreters() -> dict[str, Path]:
    """The oldest and the newest supported Python of this machine, by name such as ``3.9``.

    The one that runs the tests is supported, so there is at least one.
    """
    found = {_version_of(path): path for path in [*_candidates(), Path(sys.executable)]}
    known = sorted(version for version in found if version >= OLDEST)
    return {"{}.{}".format(*version): found[version] for version in (known[0], known[-1])}


def installed(python: Path, *more: str) -> Path:
    """An environment of ``python`` with the client's wheel and ``more`` requirements, from the
    cache; its command is ``bin/storlet``."""

    def make(place: Path) -> None:
        run([str(python), "-m", "venv", str(place)])
        # -E: the byte code belongs in the environment, and not in the cache of this session.
        pip = [str(place / "bin/python"), "-E", "-m", "pip", "install", "--quiet", "--no-input"]
        run([*pip, str(build(place / "wheel")), *more])

    parts = [cache.tree_digest(CHECKOUT, [PACKAGE]), str(python), *more]
    return cache.made("client", cache.digest(parts), make)


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """The standard output of a command that has to succeed."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _candidates() -> Iterator[Path]:
    """Interpreters of a version manager, and those on ``PATH``."""
    manager = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from manager.glob("versions/*/bin/python3")
    for directory in os.get_exec_path():
        yield from Path(directory).glob("python3.[0-9]*[0-9]")


def _version_of(path: Path) -> tuple[int, ...]:
    """Major and minor version; (0, 0) for a program that is no interpreter, such as a version
    manager's stand-in for a version that is not selected."""
    done = subprocess.run([str(path), "-c", _VERSION], capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else (0, 0)
