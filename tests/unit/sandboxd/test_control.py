"""The control connection to a supervisor: placement of workers, while requests use the other
direction."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from storlet_daemon.protocol import framing, messages
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups
from storlet_middleware.sandboxd.control import MOVES_MAX, ControlLink
from storlet_middleware.sandboxd.supervisor import Supervisor

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
