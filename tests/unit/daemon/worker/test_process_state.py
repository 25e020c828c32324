"""The state of a worker's process: settings that are restored, remains that end the worker.

Each case runs in a child process, because it changes its process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.worker.process_state import (
    FileId,
    ProcessState,
    cpu_seconds,
    file_of,
    files_in,
    has_children,
)
from tests.unit.daemon.children import in_child

TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def setting() -> tuple[Any, ...]:
    """Everything of a process that can be restored."""
    umask = os.umask(0)
    os.umask(umask)
    timers = [signal.getitimer(timer) for timer in TIMERS]
    return Path.cwd(), umask, dict(os.environ), list(sys.path), timers


def change_directory() -> None:
    os.chdir("/")


def change_umask() -> None:
    os.umask(0o777)


def change_environment() -> None:
    os.environ["ADDED"] = "x"
    os.environ["HOME"] = "/changed"
    del os.environ["PATH"]


def replace_environment() -> None:
    os.environ = {"A": "b"}  # type: ignore[assignment]  # noqa: B003  a storlet may do this


def change_import_path() -> None:
    sys.path.insert(0, "/evil")


def set_timers() -> None:
    for timer in TIMERS:
        signal.setitimer(timer, 1000)


@pytest.mark.parametrize(
    "change",
    [
        change_directory,
        change_umask,
        change_environment,
        replace_environment,
        change_import_path,
        set_timers,
    ],
    ids=lambda change: change.__name__,
)
def test_changed_settings_are_restored(change: Callable[[], None]) -> None:
    def run() -> None:
        for timer in TIMERS:
            signal.setitimer(timer, 0)
        state, before = ProcessState(), setting()
        change()
        assert setting() != before
        assert not state.restore(set())
        assert setting() == before

    in_child(run)


def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=[100], daemon=True).start()


def leave_a_child() -> None:
    if os.fork() == 0:
        time.sleep(0.2)
        os._exit(0)


def leave_a_signal_handler() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)


def remove_the_directory() -> None:
    """The settings cannot be restored."""
    Path.cwd().rmdir()
    os.chdir("/")


@pytest.mark.parametrize(
    "leave",
    [
        leave_a_thread,
        leave_a_child,
        leave_a_signal_handler,
        remove_the_directory,
    ],
    ids=lambda leave: leave.__name__,
)
def test_remains_of_a_run_end_the_worker(leave: Callable[[], None], tmp_path: Path) -> None:
    def run() -> bool:
        (tmp_path / "own").mkdir()
        os.chdir(tmp_path / "own")
        state = ProcessState()
        leave()
        return state.restore(set())

    assert in_child(run)


def test_a_handler_of_the_storlet_that_raises_during_the_restore_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_arguments: object) -> None:
        raise SystemExit

    def run() -> bool:
        state = ProcessState()
        signal.signal(signal.SIGALRM, fail)
        # A timer would sometimes end before or after the restore.
        restored = lambda _state: signal.raise_signal(signal.SIGALRM)  # noqa: E731
        monkeypatch.setattr(ProcessState, "_restore_settings", restored)
        return state.restore(set())

    assert in_child(run)


def test_threads_and_children_that_have_ended_are_no_remains() -> None:
    def run() -> bool:
        state = ProcessState()
        thread = threading.Thread(target=str)
        thread.start()
        thread.join()
        subprocess.run(["true"], check=True)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
        return state.restore(set())

    assert not in_child(run)


def test_a_thread_that_is_about_to_end_is_no_remain() -> None:
    """On a busy machine the kernel removes a thread some time after it was joined."""

    def run() -> bool:
        state = ProcessState()
        threading.Thread(target=time.sleep, args=[0.02]).start()
        return state.restore(set())

    assert not in_child(run)


@pytest.mark.parametrize(("is_donated", "is_left"), [(True, True), (False, False)])
def test_a_duplicate_of_a_donated_file_ends_the_worker(is_donated: bool, is_left: bool) -> None:
    """Other files may stay open, such as those that a module caches."""

    def run() -> bool:
        reading, writing = os.pipe()
        donated: set[FileId] = {file_of(os.fstat(reading))} if is_donated else set()
        state = ProcessState()
        os.dup(reading)
        os.close(writing)
        os.dup(0)
        return state.restore(donated)

    assert in_child(run) is is_left


def test_open_files_are_found_by_their_identity(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w") as file:
        assert file_of(os.fstat(file.fileno())) in files_in("/proc/self/fd")
    assert file_of(path.stat()) not in files_in("/proc/self/fd")


def test_only_living_children_count() -> None:
    def run() -> tuple[bool, bool, bool]:
        before = has_children()
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        while_it_lives = has_children()
        os.close(writing)
        deadline = time.monotonic() + 10
        while has_children() and time.monotonic() < deadline:
            time.sleep(0.001)
        return before, while_it_lives, has_children()

    assert in_child(run) == (False, True, False)


def test_cpu_time_includes_reaped_children() -> None:
    def run() -> tuple[float, float]:
        def compute() -> None:
            end = time.process_time() + 0.03
            while time.process_time() < end:
                pass

        started = cpu_seconds()
        pid = os.fork()
        if pid == 0:
            compute()
            os._exit(0)
        os.waitpid(pid, 0)
        of_child = cpu_seconds() - started
        compute()
        return of_child, cpu_seconds() - started

    of_child, of_both = in_child(run)
    assert of_child >= 0.02
    assert of_both >= of_child + 0.02
