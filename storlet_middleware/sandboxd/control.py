"""The control connection to one supervisor, seen from the node: hello, numbered requests, loss.

The peer runs beside a tenant's code and may be fed by it, so nothing it says is believed beyond the protocol: an answer
for a request that nobody made is dropped, anything malformed ends the connection, and so does a peer that does not read.
The end of the connection is the end of the sandbox: process 1 of a container ends with all its processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import select
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from storlet_daemon.protocol import framing, messages
from storlet_middleware.sandboxd.errors import LoadRefused, SandboxLost
from storlet_middleware.sandboxd.identity import Identity

#: A supervisor answers in a millisecond; this allows for a node whose cores are all busy.
ANSWER_SECONDS: Final = 10.0
#: A self-test tries many things, some of them until a limit bites; the supervisor ends it after 60 seconds.
CHECK_SECONDS: Final = 75.0
#: Messages that are taken off one connection before the others get their turn.
BURST: Final = 16
#: Workers of one sandbox that are being placed at a time; one more is told at once that it was not.
PLACING_MAX: Final = 32

_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The process at the other end of a Unix socket, as the kernel knows it; ``pid`` 0: in a pid namespace out of sight."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Who connected."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(data))


def stranger(peer: Peer, identity: Identity) -> str:
    """Why ``peer`` cannot be the supervisor of a sandbox of ``identity``; empty when it can.

    The uid is the tenant's, and workers have it too; so the peer must be process 1 of a pid namespace.  A tenant cannot
    make such a namespace (no capabilities, seccomp).  Where sandboxd runs in a container itself, or the runtime is not the
    kernel's, the pid is out of sight and the uid has to do.
    """
    if (peer.uid, peer.gid) != (identity.uid, identity.gid):
        return f"uid:gid {peer.uid}:{peer.gid} is not {identity.uid}:{identity.gid}"
    if peer.pid == 0:
        return ""
    try:
        status = Path(f"/proc/{peer.pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return f"process {peer.pid} is gone"
    pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return (
        ""
        if len(pids) > 1 and pids[-1] == "1"
        else f"process {peer.pid} is not process 1 of a sandbox"
    )


def _has_peer(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return not poll.poll(0)


PeerCheck = Callable[[Peer, Identity], str]


class _Numbered(Protocol):
    @property
    def request(self) -> int: ...


_A = TypeVar("_A", bound=messages.Message)

#: Puts a worker into its control groups; the directory that the sandbox sees them in, empty when it could not.
Placer = Callable[[messages.Place], Awaitable[str]]


async def nowhere(_place: messages.Place) -> str:
    """Place nobody: only the sandbox's own limits hold."""
    return ""


class ControlLink:
    """One connection; owns the socket.  ``on_lost`` is called once, with the reason, unless :meth:`close` came first.

    ``place`` is called for each worker that the supervisor announces, which waits for the answer for a second.
    """

    def __init__(
        self, connection: socket.socket, on_lost: Callable[[str], None], place: Placer = nowhere
    ) -> None:
        self._connection = connection
        self._on_lost = on_lost
        self._place = place
        self._placing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[messages.Message]] = {}
        self.hello: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._end_reason = ""

    def open(self) -> None:
        """Begin to listen to the supervisor."""
        self._connection.setblocking(False)
        self._loop.add_reader(self._connection, self._readable)

    @property
    def is_open(self) -> bool:
        """Whether the connection has not ended yet, as far as we were told."""
        return not self._end_reason

    async def load(self, build: Callable[[int], messages.Load], listener: socket.socket) -> None:
        """Donate the listening socket of a storlet; our copy is closed whatever happens."""
        with listener:
            await self._request(build, messages.Loaded, [listener.fileno()])

    async def unload(self, version: str) -> None:
        """Have a group end when its work is done."""
        await self._request(lambda number: messages.Unload(number, version), messages.Unloaded)

    async def status(self) -> tuple[messages.Group, ...]:
        """The groups of the sandbox."""
        answer = await self._request(messages.AskStatus, messages.GroupStatus)
        return tuple(answer.groups)

    async def inspect(self) -> dict[str, str]:
        """What the sandbox has really become: files by path, for a comparison with what was asked for."""
        answer = await self._request(messages.Inspect, messages.Inspected)
        return dict(answer.files)

    async def check(
        self, descriptor: int, allowed: Sequence[str], limits: messages.Resources
    ) -> dict[str, str]:
        """Have it try to break out; faults by name of the test.  ``descriptor`` stays the caller's."""
        answer = await self._request(
            lambda number: messages.Check(number, allowed, limits),
            messages.Checked,
            [descriptor],
            CHECK_SECONDS,
        )
        return dict(answer.faults)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Callable[[], bool]]:
        """Whether the supervisor still holds its end, for a thread to ask: while it does, its pid is its own."""
        if self._end_reason:
            raise SandboxLost(self._end_reason)
        with self._connection.dup() as connection:
            yield lambda: _has_peer(connection)

    async def assign(self, identity: Identity) -> None:
        """Have a pre-warmed supervisor become a tenant's user for good."""
        await self._request(
            lambda number: messages.Assign(number, identity.uid, identity.gid), messages.Assigned
        )

    def close(self, reason: str = "sandboxd closed the connection") -> None:
        """End the connection from our side; requests under way raise :class:`SandboxLost`."""
        self._end(reason)

    async def _request(
        self,
        build: Callable[[int], messages.Message],
        kind: type[_A],
        descriptors: Iterable[int] = (),
        seconds: float = ANSWER_SECONDS,
    ) -> _A:
        if self._end_reason:
            raise SandboxLost(self._end_reason)
        number = next(self._numbers)
        answer: asyncio.Future[messages.Message] = self._loop.create_future()
        self._waiting[number] = answer
        try:
            framing.send(self._connection, build(number), descriptors)
            async with asyncio.timeout(seconds):
                message = await answer
        except BlockingIOError:
            raise SandboxLost("the supervisor does not read its control connection") from None
        except OSError as error:
            # TimeoutError is one; a broken pipe means that the end was not read yet.
            raise SandboxLost(f"the supervisor does not answer: {error or 'too late'}") from error
        finally:
            del self._waiting[number]
        if isinstance(message, kind):
            return message
        if isinstance(message, messages.Refused):
            raise LoadRefused(messages.one_line(message.message))
        raise SandboxLost(f"the supervisor answered with {message.TYPE}")

    def _readable(self) -> None:
        for _ in range(BURST):
            try:
                received = framing.receive(self._connection)
                if received is None:
                    self._lose("the supervisor closed its control connection")
                    return
                self._take(received.message(messages.CONTROL_REPORTS))
            except BlockingIOError:
                return
            except messages.ProtocolError as error:
                self._lose(f"the supervisor broke the protocol: {messages.one_line(str(error))}")
                return
            except OSError as error:
                self._lose(f"the control connection broke: {error.strerror}")
                return

    def _take(self, message: messages.Hello | messages.Place | _Numbered) -> None:
        if isinstance(message, messages.Hello):
            if not self.hello.done():
                self.hello.set_result(message)
            return
        if isinstance(message, messages.Place):
            self._begin_to_place(message)
            return
        waiting = self._waiting.get(message.request)
        if waiting is not None and not waiting.done() and isinstance(message, messages.Message):
            waiting.set_result(message)

    def _begin_to_place(self, place: messages.Place) -> None:
        if len(self._placing) >= PLACING_MAX:
            self._say_placed(messages.Placed(place.pid))
            return
        task = self._loop.create_task(self._place_one(place))
        self._placing.add(task)
        task.add_done_callback(self._placing.discard)

    async def _place_one(self, place: messages.Place) -> None:
        self._say_placed(messages.Placed(place.pid, await self._place(place)))

    def _say_placed(self, placed: messages.Placed) -> None:
        if self._end_reason:
            return
        try:
            framing.send(self._connection, placed)
        except OSError as error:
            self._lose(f"the supervisor does not read its control connection: {error.strerror}")

    def _lose(self, reason: str) -> None:
        if self._end(reason):
            self._on_lost(reason)

    def _end(self, reason: str) -> bool:
        if self._end_reason:
            return False
        self._end_reason = reason
        self._loop.remove_reader(self._connection)
        self._connection.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(SandboxLost(reason))
        if not self.hello.done():
            self.hello.set_exception(SandboxLost(reason))
            self.hello.exception()  # seen: nobody may be waiting for it any more
        return True
