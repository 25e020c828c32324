"""New worker processes: their release, descriptors, limits, output, and failures."""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from storlet_daemon import launch
from storlet_daemon.confinement import Confinement
from storlet_daemon.launch import BecomeWorker, Launched, read_output, release
from storlet_daemon.protocol.messages import Resources
from storlet_daemon.runtimes.language import CHANNEL, LISTENING


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.bind("")
        made.listen()
        yield made


def report(value: object) -> NoReturn:
    """Send a value from the child over its channel, and exit."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, CHANNEL) as channel:
        channel.send(json.dumps(value).encode())
    os._exit(0)


@contextmanager
def launched(
    listening: socket.socket,
    become_worker: BecomeWorker,
    limits: Resources | None = None,
) -> Iterator[Launched]:
    child = launch.launch(listening, "name", limits or Resources(), become_worker, Confinement())
    child.channel.setblocking(True)
    child.channel.settimeout(20)
    try:
        yield child
    finally:
        child.channel.close()
        os.close(child.output)


def reported(listening: socket.socket, value: Callable[[], object], **limits: int) -> Any:
    """The value of ``value`` in a new worker."""
    with launched(listening, lambda _: report(value()), Resources(**limits)) as child:
        release(child.channel, "")
        answer = json.loads(child.channel.recv(65536))
        assert os.waitpid(child.pid, 0)[1] == 0
    return answer


def test_a_worker_starts_after_its_release_and_learns_its_control_groups(
    listening: socket.socket,
) -> None:
    with launched(listening, lambda start: report(start.control_group)) as child:
        child.channel.settimeout(0.05)
        with pytest.raises(TimeoutError):
            child.channel.recv(100)
        assert os.waitpid(child.pid, os.WNOHANG) == (0, 0)
        release(child.channel, "group-1")
        child.channel.settimeout(20)
        assert json.loads(child.channel.recv(100)) == "group-1"
        os.waitpid(child.pid, 0)


def test_a_worker_that_is_never_released_exits_with_the_supervisor(
    listening: socket.socket,
) -> None:
    with launched(listening, lambda _: report("code of a tenant")) as child:
        child.channel.shutdown(socket.SHUT_WR)
        assert os.waitpid(child.pid, 0)[1] == 0
        assert child.channel.recv(100) == b""


def test_releasing_a_dead_worker_does_nothing(listening: socket.socket) -> None:
    with launched(listening, report) as child:
        child.channel.shutdown(socket.SHUT_WR)
        os.waitpid(child.pid, 0)
        release(child.channel, "group-1")


def test_a_worker_has_only_its_own_descriptors(listening: socket.socket) -> None:
    def links() -> list[tuple[int, str]]:
        folder = Path("/proc/self/fd")
        numbers = sorted(int(path.name) for path in folder.iterdir())
        # The last one was the listing itself.
        return [(fd, str((folder / str(fd)).readlink())) for fd in numbers[:-1]]

    with Path(os.devnull).open("rb") as other:
        os.set_inheritable(other.fileno(), True)
        kinds = dict(map(tuple, reported(listening, links)))
    assert list(kinds) == [0, 1, 2, LISTENING, CHANNEL]
    assert kinds[0] == "/dev/null"
    assert kinds[1] == kinds[2]
    assert kinds[LISTENING].startswith("socket:")
    assert kinds[CHANNEL].startswith("socket:")


def test_a_worker_leads_a_session_in_the_scratch_space(listening: socket.socket) -> None:
    def place() -> tuple[bool, str, int]:
        return os.getsid(0) == os.getpid(), str(Path.cwd()), os.umask(0)

    assert reported(listening, place) == [True, launch.WORKING_DIRECTORY, launch.UMASK]


def test_the_limits_of_the_storlet_hold_in_its_worker(listening: socket.socket) -> None:
    def limits() -> list[int]:
        kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)
        return [resource.getrlimit(kind)[0] for kind in kinds]

    found = reported(listening, limits, open_files=64, scratch_bytes=1 << 20)
    assert found == [64, 1 << 20]


def test_text_that_a_worker_prints_is_its_output_up_to_the_limit(listening: socket.socket) -> None:
    def print_much(_directory: str) -> NoReturn:
        os.write(1, b"one ")
        os.write(2, b"two")
        while True:
            os.write(1, b"x" * 5000)

    with launched(listening, print_much) as child:
        release(child.channel, "")
        os.waitpid(child.pid, 0)
        output = read_output(child.output)
    assert output.startswith("one twoxxx")
    assert len(output) <= launch.OUTPUT_MAX


def test_an_exception_ends_the_child_with_its_traceback_as_output(
    listening: socket.socket,
) -> None:
    def fail(_directory: str) -> NoReturn:
        raise LookupError("no such interpreter")

    with launched(listening, fail) as child:
        release(child.channel, "")
        _, status = os.waitpid(child.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 1
        assert "LookupError: no such interpreter" in read_output(child.output)


def test_without_room_for_a_process_nothing_is_left_open(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(BlockingIOError):
        launch.launch(listening, "name", Resources(), report, Confinement())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_output_of_a_closed_file_is_empty() -> None:
    assert read_output(-1) == ""
