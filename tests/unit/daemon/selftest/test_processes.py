"""Other processes: what can be read of a supervisor that does not hide its memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from storlet_daemon import kernel
from storlet_daemon.selftest.model import Facts
from tests.unit.daemon.children import in_child
from tests.unit.daemon.selftest.rows import attempt


def found_in(prepare: Callable[[], None]) -> str:
    """The finding about a supervisor of the same user that has called ``prepare``."""

    def run() -> str:
        if os.getuid() == 0:  # root can read every process
            os.setgroups([])
            os.setresgid(54321, 54321, 54321)
            os.setresuid(54321, 54321, 54321)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                prepare()
                os.write(writing, b"x")
                signal.pause()
            finally:
                os._exit(0)
        os.read(reading, 1)
        try:
            return attempt("supervisor-memory", Facts(0, pid))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    return in_child(run)


def test_the_memory_of_a_supervisor_is_reported_unless_it_is_hidden() -> None:
    assert found_in(kernel.hide_memory) == ""
    assert found_in(kernel.show_memory).startswith("of the supervisor can be read: ")


def test_the_files_of_an_open_process_are_named() -> None:
    result = attempt("supervisor-memory", Facts(0, os.getpid()))
    assert result.startswith("of the supervisor can be read: ")
    assert "environ" in result


def test_a_process_that_does_not_exist_cannot_be_read() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert attempt("supervisor-memory", Facts(0, pid)) == ""


@pytest.mark.parametrize("name", ["processes-of-the-host", "supervisor-signals"])
def test_a_supervisor_that_is_not_process_1_fails(name: str) -> None:
    """No signal is sent to process 1 of a host."""
    began = time.monotonic()
    assert "not 1" in attempt(name, Facts(0, os.getpid()))
    assert time.monotonic() - began < 5
