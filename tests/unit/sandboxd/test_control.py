"""The control connection to a supervisor: placement of workers, while requests use the other
direction."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_middleware.sandboxd import control, cpu_share
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups
from storlet_middleware.sandboxd.control import MOVES_MAX, ControlLink
from storlet_middleware.sandboxd.identity import Identity
from storlet_middleware.sandboxd.node import MOVES_MAX as MOVES_OF_NODE
from storlet_middleware.sandboxd.sandbox.supervisor import Supervisor

VERSION = "ab" * 32
Scene = Callable[[ControlLink, socket.socket, list[str]], Awaitable[None]]


def play(scene: Scene, place: Callable[[messages.Place], Awaitable[str]]) -> None:
    """``scene`` receives the link, the supervisor's end of its connection, and the reason of a
    loss, if any."""

    async def run() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        lost: list[str] = []
        with theirs:
            link = ControlLink(ours, lost.append, place)
            link.open()
            await asyncio.wait_for(scene(link, theirs, lost), 10)
            link.close()

    asyncio.run(run())


async def next_message(connection: socket.socket) -> messages.Message:
    """The messages that the link sends."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    await arrived.wait()
    loop.remove_reader(connection)
    received = framing.receive(connection)
    assert received is not None
    message: messages.Message = received.message(messages.CONTROL_COMMANDS)
    return message


def test_a_worker_is_placed_and_its_supervisor_receives_the_groups() -> None:
    asked = []

    async def place(wanted: messages.Place) -> str:
        asked.append(wanted)
        return "group-ab"

    async def scene(_link: ControlLink, supervisor: socket.socket, lost: list[str]) -> None:
        wanted = messages.Place(VERSION, 17, messages.Resources(memory_bytes=5))
        framing.send(supervisor, wanted)
        assert await next_message(supervisor) == messages.Placed(17, "group-ab")
        assert asked == [wanted]
        assert not lost

    play(scene, place)


def test_a_slow_placement_delays_nothing_and_excess_requests_are_refused_at_once() -> None:
    go = asyncio.Event()

    async def place(_wanted: messages.Place) -> str:
        await go.wait()
        return "group-ab"

    async def scene(link: ControlLink, supervisor: socket.socket, _lost: list[str]) -> None:
        for pid in range(MOVES_MAX + 1):
            framing.send(supervisor, messages.Place(VERSION, pid))
        assert await next_message(supervisor) == messages.Placed(MOVES_MAX, "")
        unloaded = asyncio.create_task(link.unload(VERSION))
        command = await next_message(supervisor)
        assert isinstance(command, messages.Unload)
        framing.send(supervisor, messages.Unloaded(command.request))
        await unloaded
        go.set()
        answers = [await next_message(supervisor) for _ in range(MOVES_MAX)]
        assert answers == [messages.Placed(pid, "group-ab") for pid in range(MOVES_MAX)]

    play(scene, place)


def test_a_sandbox_takes_a_part_of_the_threads_for_moves_only() -> None:
    """A tenant may control its supervisor, and moves of other sandboxes would wait."""
    under_way, most = 0, 0

    async def place(_wanted: messages.Place) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return "group-ab"

    async def scene(_link: ControlLink, supervisor: socket.socket, _lost: list[str]) -> None:
        for pid in range(8):
            framing.send(supervisor, messages.Place(VERSION, pid))
        for pid in range(8):
            assert await next_message(supervisor) == messages.Placed(pid, "group-ab")
        assert most < MOVES_OF_NODE
        assert most == control.THREADS_MAX

    play(scene, place)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(framing.encode(messages.Place(VERSION, 7)), id="place"),
        pytest.param(framing.encode(messages.Hello(1, [])), id="hello"),
        pytest.param(framing.encode(messages.Unloaded(1)), id="answer-without-request"),
    ],
)
def test_supervisor_that_sends_without_end_is_lost_at_its_share(
    message: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_share, "BURST_SECONDS", 0.005)
    # A loaded machine may give this thread less than the real share.
    monkeypatch.setattr(cpu_share, "SHARE", 0.003)

    async def scene(_link: ControlLink, supervisor: socket.socket, lost: list[str]) -> None:
        began = time.thread_time()
        while not lost:
            with contextlib.suppress(OSError):
                for _ in range(16):
                    supervisor.send(message)
            with contextlib.suppress(OSError):
                while supervisor.recv(4096):
                    pass
            await asyncio.sleep(0)
        assert "its share of sandboxd's CPU time" in lost[0]
        assert time.thread_time() - began < 2

    play(scene, control.no_cgroups)


def test_answers_take_nothing_of_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its start, each server process requests each storlet of a sandbox."""
    monkeypatch.setattr(cpu_share, "BURST_SECONDS", 0.0)

    async def scene(link: ControlLink, supervisor: socket.socket, lost: list[str]) -> None:
        for _ in range(3):
            asked = asyncio.create_task(link.unload(VERSION))
            command = await next_message(supervisor)
            assert isinstance(command, messages.Unload)
            framing.send(supervisor, messages.Unloaded(command.request))
            await asked
        assert not lost
        framing.send(supervisor, messages.Unloaded(1))
        await asyncio.sleep(0.05)
        assert lost

    play(scene, control.no_cgroups)


def test_moves_count_as_cpu_time_of_their_sandbox() -> None:
    async def scene(link: ControlLink, _supervisor: socket.socket, lost: list[str]) -> None:
        link.charge(cpu_share.BURST_SECONDS / 2)
        assert link.is_open
        link.charge(cpu_share.BURST_SECONDS)
        assert not link.is_open
        assert len(lost) == 1

    play(scene, control.no_cgroups)


def test_an_answer_after_the_end_is_dropped() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def place(_wanted: messages.Place) -> str:
        begun.set()
        await go.wait()
        return "group-ab"

    async def scene(link: ControlLink, supervisor: socket.socket, lost: list[str]) -> None:
        framing.send(supervisor, messages.Place(VERSION, 1))
        await begun.wait()
        link.close()
        go.set()
        await asyncio.sleep(0)
        assert framing.receive(supervisor) is None
        assert not lost

    play(scene, place)


def test_a_worker_of_a_sandbox_that_has_ended_is_not_looked_for() -> None:
    """Its supervisor's pid may be that of another sandbox's by now."""
    asked = []

    class Groups(WorkerCgroups):
        def move_worker(
            self, supervisor_pid: int, sandbox_pid: int, _group: str, _limits: messages.Resources
        ) -> str:
            asked.append((supervisor_pid, sandbox_pid))
            return "group-ab"

    async def run() -> list[str]:
        node: Any = SimpleNamespace(worker_cgroups=Groups())
        supervisor = Supervisor(node, lambda _: None)
        place = messages.Place(VERSION, 7)
        return [
            supervisor.move_worker(place, lambda: True),
            supervisor.move_worker(place, lambda: False),
        ]

    assert asyncio.run(run()) == ["group-ab", ""]
    assert asked == [(0, 7)]


def test_the_peer_of_a_socket_is_known_from_the_kernel() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert control.peer_of(ours) == control.Peer(os.getpid(), os.getuid(), os.getgid())


def test_another_uid_or_gid_is_a_stranger() -> None:
    identity = Identity("AUTH_a", "user", 200000)
    assert "uid:gid 0:0" in control.peer_fault(control.Peer(1, 0, 0), identity)
    assert "uid:gid" in control.peer_fault(control.Peer(1, 200000, 0), identity)


def test_a_process_that_is_not_process_1_of_a_sandbox_is_a_stranger() -> None:
    identity = Identity("AUTH_a", "user", 200000)
    assert "not process 1" in control.peer_fault(
        control.Peer(os.getpid(), 200000, 200000), identity
    )
    assert "not process 1" in control.peer_fault(control.Peer(1, 200000, 200000), identity), (
        "the host's init is none"
    )
    assert "has ended" in control.peer_fault(control.Peer(2**22 + 1, 200000, 200000), identity)


def test_a_pid_out_of_sight_is_accepted_by_its_uid() -> None:
    assert (
        control.peer_fault(control.Peer(0, 200000, 200000), Identity("AUTH_a", "user", 200000))
        == ""
    )


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("unshare") is None, reason="makes a pid namespace, as root"
)
def test_process_1_of_a_pid_namespace_is_accepted() -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(
            encoding="ascii"
        )
        child = int(children.split()[0])
        assert (
            control.peer_fault(
                control.Peer(child, 200000, 200000), Identity("AUTH_a", "user", 200000)
            )
            == ""
        )
        process.stdin.close()
