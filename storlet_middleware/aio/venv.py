"""The Python environment, in layers; each is in the cache under the hash of its content.

``deps``   a virtual environment with ``requirements.txt``: Swift and its libraries
``tools``  on top of it ``requirements-test.txt``: pytest, ruff, mypy and others
``bench``  on top of ``deps`` ``requirements-bench.txt``: libraries for plots, for ``make bench``
``code``   on top of ``deps`` the packages of this checkout, installed and not linked: Swift's user
           cannot read a checkout in ``/root``, and edited files must not change a running cluster

``data`` is no layer but a folder: the Python packages of the larger sandbox image, for the Python
and the machine of a sandbox.

A layer is a virtual environment with a ``.pth`` file that names the layer below, so that
``<layer>/bin/python`` and the scripts beside it work as usual.  A change of our code costs two
seconds, not a new installation of Swift.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from . import cache
from .home import CHECKOUT, needs_mount
from .progress import AioError, run

PACKAGES: Final = ("storlet_middleware", "storlet_daemon", "rules")
BUILD_FILES: Final = ("setup.py", "MANIFEST.in", "README.rst", "LICENSE")
DATA_REQUIREMENTS: Final = CHECKOUT / "sandbox_images/data/requirements.txt"
#: Minor versions of glibc for which wheels are taken: up to that of the sandbox, Debian 12.
SANDBOX_GLIBC: Final = range(36, 16, -1)
PYTHONS: Final = (
    "/usr/bin/python3",
    "/usr/bin/python3.13",
    "/usr/bin/python3.12",
    "/usr/bin/python3.11",
    "/usr/local/bin/python3",
)


def base_python() -> Path:
    """A Python from 3.11 on that Swift's user can run, too (not one below ``/root``)."""
    for name in (*PYTHONS, sys.executable):
        path = Path(os.path.realpath(name))
        if (
            path.exists()
            and _version_of(path) >= (3, 11)
            and (os.geteuid() or not needs_mount(path))
        ):
            return path
    raise AioError(
        "no Python 3.11 or newer that all users may run (tried /usr/bin/python3 and others): "
        "install python3"
    )


def deps(log: Path) -> Path:
    """The environment with everything of ``requirements.txt``."""
    python = base_python()
    text = (CHECKOUT / "requirements.txt").read_text(encoding="utf-8")

    def make(place: Path) -> None:
        run([python, "-m", "venv", place], log)
        install(place, place, ["-r", CHECKOUT / "requirements.txt"], log)

    return cache.made("deps", cache.digest([text, str(python), str(_version_of(python))]), make)


def tools(log: Path) -> Path:
    """``deps`` and everything of ``requirements-test.txt``."""
    return _layer_with("tools", "requirements-test.txt", log)


def bench(log: Path) -> Path:
    """``deps`` and everything of ``requirements-bench.txt``."""
    return _layer_with("bench", "requirements-bench.txt", log)


def data(log: Path) -> Path | None:
    """The Python packages of the larger sandbox image; ``None`` if they cannot be fetched."""
    below, machine = deps(log), platform.machine()
    text = DATA_REQUIREMENTS.read_text(encoding="utf-8")

    def make(place: Path) -> None:
        pip: list[str | Path] = [below / "bin/python", "-m", "pip", "install", "--no-input"]
        pip += ["--retries=2", "--no-deps", "--no-compile", "--require-hashes", "--target", place]
        pip += ["--only-binary=:all:", "--implementation=cp", "--python-version=3.11"]
        pip += [f"--platform=manylinux_2_{minor}_{machine}" for minor in SANDBOX_GLIBC]
        # A package of Python only may have no wheel: it is built with what ``deps`` has.
        pip += ["--no-build-isolation"]
        run([*pip, "-r", DATA_REQUIREMENTS], log, env=_pip_env(), cwd=place)

    try:
        return cache.made("data", cache.digest([text, machine]), make)
    except AioError:
        return None


def code(log: Path) -> Path:
    """``deps`` and the packages of this checkout: the environment of a cluster."""
    below = deps(log)

    def make(place: Path) -> None:
        _new_layer(place, below, log)
        source = place / "src"
        copy_sources(source)
        install(place, below, ["--no-index", "--no-build-isolation", source], log)
        # The wheel is that of production, without this package; the cluster's processes need it.
        tooling = "storlet_middleware/aio"
        shutil.copytree(source / tooling, _site_packages(place) / tooling)
        shutil.rmtree(source)

    sources = cache.tree_digest(CHECKOUT, [*PACKAGES, *BUILD_FILES, "etc"])
    return cache.made("code", cache.digest([sources, below.name]), make)


def copy_sources(target: Path) -> None:
    """Copy the files that a wheel is built of to ``target``: a build writes beside its sources."""
    for name in (*BUILD_FILES, *PACKAGES, "etc"):
        top = CHECKOUT / name
        for path in cache.tree_files(top) if top.is_dir() else [top]:
            if path.exists():
                copy = target / path.relative_to(CHECKOUT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)


def _site_packages(place: Path) -> Path:
    return next(place.glob("lib/python3*/site-packages"))


def _layer_with(kind: str, requirements: str, log: Path) -> Path:
    below = deps(log)
    text = (CHECKOUT / requirements).read_text(encoding="utf-8")

    def make(place: Path) -> None:
        _new_layer(place, below, log)
        install(place, below, ["--no-build-isolation", "-r", CHECKOUT / requirements], log)

    return cache.made(kind, cache.digest([text, below.name]), make)


def install(place: Path, with_pip: Path, what: list[str | Path], log: Path) -> None:
    """Install ``what`` in the environment ``place`` with the pip of another one, or its own."""
    pip: list[str | Path] = [with_pip / "bin/python", "-m", "pip", "--python", place / "bin/python"]
    run([*pip, "install", "--no-deps", "--no-input", *what], log, env=_pip_env(), cwd=place)


def _new_layer(place: Path, below: Path, log: Path) -> None:
    run([below / "bin/python", "-m", "venv", "--without-pip", place], log)
    (_site_packages(place) / "layer-below.pth").write_text(
        f"import site; site.addsitedir({str(_site_packages(below))!r})\n", encoding="utf-8"
    )
    (place / ".below").write_text(f"{below}\n", encoding="utf-8")
    for script in (below / "bin").iterdir():
        target = place / "bin" / script.name
        if script.is_symlink() or target.exists():
            continue
        first, _, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!" + bytes(below / "bin/python")):
            target.write_bytes(b"#!" + bytes(place / "bin/python3") + b"\n" + rest)
            target.chmod(0o755)


def _pip_env() -> dict[str, str]:
    """The caller's settings of pip (mirror, certificate), except those that change the target."""
    drop = {
        "PIP_TARGET",
        "PIP_USER",
        "PIP_PREFIX",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPYCACHEPREFIX",
    }
    return {key: value for key, value in os.environ.items() if key not in drop} | {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1"
    }


def _version_of(python: Path) -> tuple[int, ...]:
    done = subprocess.run(
        [str(python), "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else (0, 0)
