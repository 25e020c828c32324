"""``make matrix``: the tests that need no cluster, with each supported version of Python and of
Swift.

Each Python runs them with the Swift of ``requirements.txt``, and the oldest Python with each Swift.
Property tests are left out: they test logic that depends on neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import cache, checks, venv
from .home import CHECKOUT, needs_mount
from .progress import AioError, run, say

#: The supported versions; a Python that is not on this machine fails the command.
PYTHONS: Final = ("3.11", "3.12", "3.13")
#: The last release of each series of Swift.
SWIFTS: Final = ("2.35.5", "2.36.4", "2.37.4", "2.38.3")
TESTS: Final = ("-q", *checks.WORKERS, "-m", "not hypothesis", *checks.WITHOUT_CLUSTER)
#: An expression of an interpreter: its shared library; empty if it has none.
_LIBRARY: Final = (
    "next((line.split(None, 5)[5].strip() for line in open('/proc/self/maps')"
    " if '/libpython' in line), '')"
)
#: A line of pytest's summary; a captured log may have lines that begin with ``ERROR``, too.
_UNHAPPY: Final = re.compile(r"(FAILED|ERROR) \S+\.py\b")
_PIN: Final = re.compile(r"^swift==(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Combination:
    """One run of the tests; ``python`` is a version such as ``3.12``."""

    python: str
    swift: str


def combinations(pinned: str) -> Iterator[Combination]:
    """Each Python with the Swift of ``requirements.txt``, and the first with the others."""
    for python in PYTHONS:
        yield Combination(python, pinned)
    for swift in SWIFTS:
        if swift != pinned:
            yield Combination(PYTHONS[0], swift)


def matrix(given: Sequence[str]) -> int:
    """Run all combinations; the number of those that failed or could not run.

    :param given: paths of interpreters; others are searched on ``PATH``.
    """
    log = cache.cache_root() / "matrix.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    pinned = _PIN.findall((CHECKOUT / "requirements.txt").read_text(encoding="utf-8"))[0]
    found = {_version(path): path for path in _interpreters(given)}
    failed = 0
    for each in combinations(pinned):
        began = time.monotonic()
        if each.python not in found:
            result = f'FAILED: no python{each.python} (PYTHONS="/path/python3 ..")'
        else:
            place = environment(found[each.python], each.swift, log)
            result = _test(place)
        failed += not result.startswith("ok")
        seconds = time.monotonic() - began
        say(f"Python {each.python:5} Swift {each.swift:7} {seconds:5.0f} s  {result}")
    return failed


def environment(python: Path, swift: str, log: Path) -> Path:
    """An environment with everything that the tests need, and this version of Swift."""
    text = (CHECKOUT / "requirements.txt").read_text(encoding="utf-8")
    wanted = _PIN.sub(f"swift=={swift}", text)
    tests = CHECKOUT / "requirements-test.txt"

    def make(place: Path) -> None:
        run([python, "-m", "venv", place], log)
        file = place / "requirements.txt"
        file.write_text(wanted, encoding="utf-8")
        venv.install(place, place, ["-r", file, "-r", tests], log)

    parts = [wanted, tests.read_text(encoding="utf-8"), str(python), _full_version(python)]
    return cache.made("matrix", cache.digest(parts), make)


def _interpreters(given: Sequence[str]) -> Iterator[Path]:
    """Interpreters that all users can run: those on ``PATH``, then the given ones."""
    for directory in reversed(os.get_exec_path()):
        for version in PYTHONS:
            path = Path(directory, f"python{version}")
            if path.exists() and _runs(path) and _private_part(path) is None:
                yield _program(path)
    for name in given:
        path = Path(name)
        if not path.exists() or not _runs(path):
            raise AioError(f"{name} is no Python interpreter that runs")
        private = _private_part(path)
        if private is not None:
            raise AioError(
                f"{name}: tests start it as another user, who cannot read {private}. Install this"
                " Python in a folder that all users can read"
            )
        yield _program(path)


def _runs(path: Path) -> bool:
    """False for a version manager's stand-in for a version that is not selected."""
    command = [str(path), "-c", "import sys; sys.exit(7)"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 7


def _program(path: Path) -> Path:
    return Path(os.path.realpath(_ask(path, "sys.executable")))


def _private_part(path: Path) -> Path | None:
    """A part of an interpreter that other users cannot read: itself, its library, its modules."""
    library = _ask(path, _LIBRARY)
    modules = _ask(path, "__import__('os').__file__")
    parts = [_program(path), *([Path(library)] if library else []), Path(modules)]
    return next((part for part in parts if needs_mount(part) or not _is_public(part)), None)


def _is_public(file: Path) -> bool:
    return bool(file.stat().st_mode & 0o004)


def _version(python: Path) -> str:
    return _full_version(python).rpartition(".")[0]


def _full_version(python: Path) -> str:
    return _ask(python, "'.'.join(map(str, sys.version_info[:3]))")


def _ask(python: str | Path, expression: str) -> str:
    command = [str(python), "-c", f"import sys; print({expression})"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _test(place: Path) -> str:
    """The last line of pytest, after ``ok`` or ``FAILED``."""
    command = [str(place / "bin/python"), "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
    path = f"{place}/bin:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    if done.returncode:
        for line in lines:
            if _UNHAPPY.match(line):
                say(f"    {line}")
    return f"{'FAILED' if done.returncode else 'ok'}: {lines[-1]}"
