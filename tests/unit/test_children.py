"""A child that is a fork of the template is used as a process of subprocess; with real ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import children
from tests.support.children import Child
from tests.support.cluster import CHECKOUT
from tests.support.waiting import wait_for

PARSE = "storlet_middleware.ruleset.parse_process"
UNPACK = "storlet_middleware.engine.unpack_process"
Begin = Callable[..., Any]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A template whose owner is a process of this module."""
    path = tmp_path_factory.mktemp("template") / "socket"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as owner:
        program = children._PROGRAM
        words = [str(CHECKOUT), str(path), str(owner.pid), ""]
        command = [sys.executable, "-c", program, *words]
        with subprocess.Popen(command, cwd=CHECKOUT) as process:
            wait_for(lambda: is_listening(path), 30, "the template")
            yield path
            owner.kill()
            assert process.wait(10) == 0, "it ends with its owner"


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        return client.connect_ex(str(path)) == 0


@pytest.fixture
def begin(template: Path) -> Begin:
    """Begins a child and returns it with the other end of its input and output."""

    def begun(module: str, *words: str) -> tuple[Child, socket.socket]:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", module, *words]
        with theirs:
            child = children.popen(
                template,
                command,
                stdin=theirs,
                stdout=theirs,
                stderr=subprocess.DEVNULL,
                env={"A": "b"},
                cwd="/",
            )
        assert isinstance(child, Child)
        return child, ours

    return begun


def test_a_child_reads_answers_and_ends(begin: Begin) -> None:
    child, connection = begin(PARSE, "5")
    with connection:
        assert child.poll() is None
        connection.sendall(b"version: 1\nrules: []\n")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1000)
        handle = os.pidfd_open(child.pid)  # also of one that has ended
        os.close(handle)
        assert child.wait() == 0
    assert child.poll() == child.wait() == 0
    wait_for(lambda: not Path(f"/proc/{child.pid}").exists(), 10, "the template to reap it")


def test_the_status_of_a_failure_is_that_of_a_process(begin: Begin) -> None:
    child, connection = begin(UNPACK, "5", "/nonexistent", "0", "/nonexistent")
    with connection:
        connection.sendall(b"\n")
        assert child.wait() == 1, "it ends with a text"


def test_a_killed_child_has_the_signal_as_its_status(begin: Begin) -> None:
    child, connection = begin(PARSE, "5")
    with connection:
        child.kill()
        assert child.wait() == -signal.SIGKILL
        child.kill()  # does nothing


def test_limits_are_those_of_the_child(begin: Begin) -> None:
    first, second = begin(PARSE, "3"), begin(PARSE, "4")
    for (child, connection), seconds in ((first, "3"), (second, "4")):
        with connection:
            limits = Path(f"/proc/{child.pid}/limits")
            wait_for(lambda: f"cpu time {seconds} " in " ".join(limits.read_text().split()), 10, "")  # noqa: B023
            child.kill()
            child.wait()


def test_other_commands_start_as_usual(template: Path) -> None:
    with children.popen(template, [sys.executable, "-P", "-m", "this"], stdout=-3) as process:
        assert isinstance(process, subprocess.Popen)
        assert process.wait(10) == 0
