"""The wheels, and environments with nothing of the project installed but the client's wheel."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from storlet_middleware.aio import cache, venv
from tests.support.cluster import CHECKOUT

PACKAGE = "storlet_client"
#: The oldest version of Python that the client supports.
OLDEST = (3, 9)
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_VERSION = "import sys; print(*sys.version_info[:2])"


def _build_client(out: Path) -> None:
    """Build the wheel in ``out``; a build writes beside its sources, so it has a copy of them."""
    source = out / "source"
    top = CHECKOUT / PACKAGE
    for path in cache.tree_files(top):
        copy = source / path.relative_to(top)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    _build(source, out)


def _build(source: Path, out: Path) -> None:
    run([sys.executable, "-c", _BUILD, str(out)], cwd=source)
    shutil.rmtree(source)


@functools.cache
def interpreters() -> dict[str, Path]:
    """The oldest and the newest supported Python of this machine, by name such as ``3.9``.

    The one that runs the tests is supported, so there is at least one.
    """
    found = {_version_of(path): path for path in [*_candidates(), Path(sys.executable)]}
    known = sorted(version for version in found if version >= OLDEST)
    return {"{}.{}".format(*version): found[version] for version in (known[0], known[-1])}


def installed(python: Path) -> Path:
    """An environment of ``python`` in which pip has installed the client's wheel and all that it
    requires, from the cache; its command is ``bin/storlet``.

    It begins as a copy of one with the requirements, to which pip adds what is missing.
    """
    below = _libraries(python)

    def make(place: Path) -> None:
        ignored = shutil.ignore_patterns(".complete")
        shutil.copytree(below, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        run([*_pip(place), str(wheel())])

    return cache.made("client", cache.digest([_sources(), str(python)]), make)


def layered(python: Path, *more: str) -> Path:
    """The same beside ``more`` requirements.

    The libraries are an environment below it, so that a change of the client installs the wheel
    only.
    """
    below = _libraries(python, *more)

    def make(place: Path) -> None:
        venv._new_layer(place, below, cache.cache_root() / "client.log")
        run([*_pip(place), "--no-deps", str(wheel())])

    return cache.made("client", cache.digest([_sources(), below.name]), make)


def wheel() -> Path:
    """The client's wheel, which serves each Python, from the cache."""
    place = cache.made("wheel", cache.digest([_sources(), sys.prefix]), _build_client)
    (found,) = place.glob("*.whl")
    return found


def server_wheel() -> Path:
    """The wheel of production, from the cache."""

    def make(out: Path) -> None:
        venv.copy_sources(out / "source")
        _build(out / "source", out)

    sources = cache.tree_digest(CHECKOUT, [*venv.PACKAGES, *venv.BUILD_FILES, "etc"])
    place = cache.made("server-wheel", cache.digest([sources, sys.prefix]), make)
    (found,) = place.glob("*.whl")
    return found


def _libraries(python: Path, *more: str) -> Path:
    """An environment of ``python`` with the requirements of the client and ``more``."""
    project = tomllib.loads((CHECKOUT / PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *more]

    def make(place: Path) -> None:
        run([str(python), "-m", "venv", str(place)])
        run([*_pip(place), *wanted])
        # Of a script: a layer copies each file of bin.
        shutil.rmtree(place / "bin/__pycache__", ignore_errors=True)

    return cache.made("libraries", cache.digest([str(python), *wanted]), make)


def _sources() -> str:
    return cache.tree_digest(CHECKOUT, [PACKAGE])


def _pip(place: Path) -> list[str]:
    # -E: the byte code belongs in the environment, and not in the cache of this session.
    return [str(place / "bin/python"), "-E", "-m", "pip", "install", "--quiet", "--no-input"]


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """The standard output of a command that has to succeed."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _candidates() -> Iterator[Path]:
    """Interpreters of a version manager, and those on ``PATH``."""
    manager = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from manager.glob("versions/*/bin/python3")
    for directory in map(Path, os.get_exec_path()):
        # Its stand-ins are scripts for the versions above, and take ten times as long.
        if directory != manager / "shims":
            yield from directory.glob("python3.[0-9]*[0-9]")


def _version_of(path: Path) -> tuple[int, ...]:
    """Major and minor version; (0, 0) for a program that is no interpreter, such as a version
    manager's stand-in for a version that is not selected."""
    done = subprocess.run([str(path), "-c", _VERSION], capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else (0, 0)
