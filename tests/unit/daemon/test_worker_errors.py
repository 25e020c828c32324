"""How a worker finds a storlet's class, and how it words what went wrong."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon import groups, worker
from storlet_daemon.author import MetadataTooLargeError
from storlet_daemon.control_groups import ControlGroup
from storlet_daemon.protocol import messages


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path, modules, bytecode = list(sys.path), set(sys.modules), sys.dont_write_bytecode
    yield tmp_path
    sys.path[:] = path
    sys.dont_write_bytecode = bytecode
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def assignment(folder: Path, main: str, file: str) -> worker.Assignment:
    return worker.Assignment(3, 4, main, file, str(folder), 1)


def caught(folder: Path, text: str, main: str = "faulty.Faulty") -> BaseException:
    (folder / "faulty.py").write_text(text)
    try:
        worker.load_class(assignment(folder, main, "faulty.py"))
    except BaseException as error:  # noqa: BLE001  SystemExit is what some of them raise
        return error
    pytest.fail("it was loaded")


def test_the_class_of_a_module_is_found_and_its_folder_importable(folder: Path) -> None:
    (folder / "helper_of_it.py").write_text("VALUE = 5\n")
    (folder / "it.py").write_text("import helper_of_it\nclass It:\n    value = helper_of_it.VALUE\n")
    found = worker.load_class(assignment(folder, "it.It", "it.py"))
    assert getattr(found, "value") == 5  # noqa: B009
    assert sys.path[0] == str(folder)
    assert sys.modules["it"].It is found
    assert not (folder / "__pycache__").exists()


@pytest.mark.parametrize(
    ("main", "text", "expected"),
    [
        ("faulty.Faulty", "", "LoadError: module faulty has no class Faulty"),
        ("faulty.Faulty", "Faulty = 5", "LoadError: module faulty has no class Faulty"),
        ("Faulty", "", "LoadError: the main class must be given as module.Class, not 'Faulty'"),
        ("faulty.Faulty", "import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("faulty.Faulty", "def (", "SyntaxError: invalid syntax (faulty.py, line 1)"),
        ("faulty.Faulty", "raise SystemExit", "storlet exited with code 0 before it was done"),
        ("faulty.Faulty", "raise SystemExit('why')", "storlet exited with code 1 before it was done"),
        ("faulty.Faulty", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_what_cannot_be_loaded_says_why(folder: Path, main: str, text: str, expected: str) -> None:
    assert worker._summary(caught(folder, text, main)) == expected


def test_a_traceback_shows_the_authors_frames_of_causes_and_groups_too(folder: Path) -> None:
    text = (
        "def inner():\n    raise ValueError('inner')\n"
        "try:\n    inner()\nexcept ValueError as error:\n    raise ExceptionGroup('many', [KeyError('k')]) from error\n"
    )
    trace = worker._traceback(caught(folder, text))
    assert "ValueError: inner" in trace
    assert "KeyError" in trace
    assert "line 2, in inner" in trace
    assert "worker.py" not in trace
    assert "importlib" not in trace


def test_an_exception_that_cannot_be_shown_is_named() -> None:
    class Sly(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert worker._summary(Sly()).endswith("Sly: (its text cannot be had)")
    assert "Sly" in worker._traceback(Sly())


def refusals(tmp_path: Path, kills: int = 0, forks: int = 0) -> worker._Refusals:
    """As a worker has them that began with counts of 1, when they have grown by this."""
    for more in (0, 1):
        (tmp_path / "memory.events").write_text(f"oom_kill {1 + more * kills}\n")
        (tmp_path / "pids.events").write_text(f"max {1 + more * forks}\n")
        if not more:
            found = worker._Refusals(ControlGroup("", str(tmp_path)))
    return found


def chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kills", "forks", "code"),
    [
        (MemoryError(), 0, 0, messages.LIMIT_MEMORY),
        (MetadataTooLargeError(), 0, 0, messages.LIMIT_METADATA),
        (SystemExit(0), 1, 1, messages.FAILED),
        (ValueError(), 1, 1, messages.FAILED),
        (BlockingIOError(errno.EAGAIN, "again"), 0, 0, messages.FAILED),
        (BlockingIOError(errno.EAGAIN, "again"), 0, 1, messages.LIMIT_PROCESSES),
        (RuntimeError("can't start new thread"), 0, 1, messages.LIMIT_PROCESSES),
        (RuntimeError("cannot do anything"), 0, 1, messages.FAILED),
        (OSError(errno.ENOSPC, "full"), 0, 0, messages.LIMIT_SCRATCH),
        (OSError(errno.EFBIG, "full"), 0, 0, messages.LIMIT_SCRATCH),
        (OSError(errno.EMFILE, "too many"), 0, 0, messages.FAILED),
        (chained(ValueError(), OSError(errno.ENOSPC, "full")), 0, 0, messages.LIMIT_SCRATCH),
        (chained(ValueError(), BlockingIOError(errno.EAGAIN, "again")), 0, 1, messages.LIMIT_PROCESSES),
        (subprocess.CalledProcessError(1, "sh"), 0, 1, messages.LIMIT_PROCESSES),
        (subprocess.CalledProcessError(-9, "sh"), 1, 1, messages.LIMIT_MEMORY),
        (subprocess.CalledProcessError(1, "sh"), 0, 0, messages.FAILED),
    ],
)
def test_codes(tmp_path: Path, error: BaseException, kills: int, forks: int, code: str) -> None:
    assert refusals(tmp_path, kills, forks).explain(error)[0] == code


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (3 << 8, "exited with code 3"),
        (11, "was killed by signal 11 (SIGSEGV)"),
        (9, "was killed by signal 9 (SIGKILL)"),
        (50, "was killed by signal 50"),
    ],
)
def test_ends_of_processes_in_words(status: int, words: str) -> None:
    assert groups.describe_exit(status) == words
