"""Error code, summary and traceback of a failed run."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from storlet_daemon.author import MetadataTooLargeError
from storlet_daemon.control_groups import ControlGroup
from storlet_daemon.protocol import messages
from storlet_daemon.worker import failure
from storlet_daemon.worker.failure import LimitClassifier


def children() -> set[str]:
    return {
        pid
        for file in Path("/proc/self/task").glob("*/children")
        for pid in file.read_text().split()
    }


@pytest.fixture(autouse=True)
def own_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only children of the test count: the process of the tests can have others."""
    others = children()
    monkeypatch.setattr(failure, "has_children", lambda: bool(children() - others))


def classifier(tmp_path: Path, kills: int = 0, forks: int = 0) -> LimitClassifier:
    """The classifier of a worker that started at counts of 1, after they grew by these."""
    for more in (0, 1):
        (tmp_path / "memory.events").write_text(f"oom_kill {1 + more * kills}\n")
        (tmp_path / "pids.events").write_text(f"max {1 + more * forks}\n")
        if not more:
            found = LimitClassifier(ControlGroup("", str(tmp_path)))
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
        (chained(ValueError(), MemoryError()), 0, 0, messages.LIMIT_MEMORY),
        (BlockingIOError(errno.EAGAIN, "again"), 0, 0, messages.FAILED),
        (BlockingIOError(errno.EAGAIN, "again"), 0, 1, messages.LIMIT_PROCESSES),
        (RuntimeError("can't start new thread"), 0, 1, messages.LIMIT_PROCESSES),
        (RuntimeError("cannot do anything"), 0, 1, messages.FAILED),
        (OSError(errno.ENOSPC, "full"), 0, 0, messages.LIMIT_SCRATCH),
        (OSError(errno.EFBIG, "full"), 0, 0, messages.LIMIT_SCRATCH),
        (OSError(errno.EMFILE, "too many"), 0, 0, messages.FAILED),
        (chained(ValueError(), OSError(errno.ENOSPC, "full")), 0, 0, messages.LIMIT_SCRATCH),
        (
            chained(ValueError(), BlockingIOError(errno.EAGAIN, "again")),
            0,
            1,
            messages.LIMIT_PROCESSES,
        ),
        (subprocess.CalledProcessError(1, "sh"), 0, 1, messages.LIMIT_PROCESSES),
        (subprocess.CalledProcessError(-9, "sh"), 1, 1, messages.LIMIT_MEMORY),
        (subprocess.CalledProcessError(1, "sh"), 0, 0, messages.FAILED),
    ],
)
def test_the_code_depends_on_the_exception_and_the_kernels_counters(
    tmp_path: Path, error: BaseException, kills: int, forks: int, code: str
) -> None:
    assert classifier(tmp_path, kills, forks).explain(error)[0] == code


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_killed_child_is_the_memory_limit_for_any_error_that_the_storlet_raises(
    tmp_path: Path, is_reaped: bool
) -> None:
    subprocess.run(["true"], check=True)
    limits = classifier(tmp_path, kills=1)
    limits.begin_run()
    if not is_reaped:
        with subprocess.Popen(["sleep", "60"]) as child:
            assert limits.explain(ValueError())[0] == messages.LIMIT_MEMORY
            child.kill()
    else:
        subprocess.run(["true"], check=True)
        assert limits.explain(ValueError())[0] == messages.LIMIT_MEMORY


def test_without_a_child_another_worker_was_killed(tmp_path: Path) -> None:
    subprocess.run(["true"], check=True)
    limits = classifier(tmp_path, kills=1)
    limits.begin_run()
    assert limits.explain(ValueError())[0] == messages.FAILED


def test_a_message_replaces_its_traceback_only_if_a_line_cannot_hold_it() -> None:
    assert failure.rest_of("one line") == ""
    assert failure.rest_of("two\nlines") == "two\nlines"
    assert len(failure.rest_of("x" * 100_000)) <= messages.TRACEBACK_MAX
