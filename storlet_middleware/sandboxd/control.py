"""The control connection to one supervisor, seen from the node: hello, numbered requests, loss.

The peer runs beside a tenant's code, which may control it, so its messages are not trusted.  An
answer without a request is dropped.  A malformed message ends the connection, and so does a peer
that does not read, or whose messages take more CPU time than its share.  The end of the connection
is the end of the sandbox, because a container ends with its process 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import select
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from storlet_daemon.protocol import framing, messages
from storlet_middleware.sandboxd.cpu_share import CpuShare
from storlet_middleware.sandboxd.errors import LoadRefused, SandboxLost
from storlet_middleware.sandboxd.identity import Identity

#: A supervisor answers in a millisecond; this allows for a node whose cores are all busy.
ANSWER_SECONDS: Final = 10.0
#: A self-test exhausts limits, which takes time; the supervisor ends it after 60 seconds.
CHECK_SECONDS: Final = 75.0
#: Messages read from one connection before other connections are served.
BURST: Final = 16
#: Workers of one sandbox that wait for their move into control groups; a further one is refused at
#: once.
MOVES_MAX: Final = 32

#: Concurrent moves of one sandbox.
THREADS_MAX: Final = 2
#: CPU time of the loop for a move: the start of a thread, and the answer.
_MOVE_CPU_SECONDS: Final = 0.0002

_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The peer of a Unix socket; ``pid`` 0: its pid namespace is out of sight."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The credentials of the connected process, from the kernel."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(data))


def peer_fault(peer: Peer, identity: Identity) -> str:
    """Why ``peer`` cannot be the supervisor of a sandbox of ``identity``; empty when it can.

    Workers have the tenant's uid, too, so the peer must also be process 1 of a pid namespace.  A
    tenant cannot make such a namespace (no capabilities, seccomp).  Where sandboxd runs in a
    container, or the runtime has its own kernel, the pid is out of sight and the uid must suffice.
    """
    if (peer.uid, peer.gid) != (identity.uid, identity.gid):
        return f"uid:gid {peer.uid}:{peer.gid} is not {identity.uid}:{identity.gid}"
    if peer.pid == 0:
        return ""
    try:
        status = Path(f"/proc/{peer.pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return f"process {peer.pid} has ended"
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

#: Moves a worker into its control groups; returns their directory in the sandbox, or "".
WorkerMover = Callable[[messages.Place], Awaitable[str]]


async def no_cgroups(_place: messages.Place) -> str:
    """Move no worker: only the sandbox's own limits hold."""
    return ""


class ControlLink:
    """One connection; owns the socket.

    ``on_lost`` is called once, with the reason, unless :meth:`close` came first.

    ``move_worker`` is called for each worker that the supervisor announces; the worker waits for
    the answer up to a second.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_lost: Callable[[str], None],
        move_worker: WorkerMover = no_cgroups,
    ) -> None:
        self._connection = connection
        self._on_lost = on_lost
        self._move_worker = move_worker
        self._moving: set[asyncio.Task[None]] = set()
        #: A sandbox never takes all of the node's threads for moves.
        self._turns = asyncio.Semaphore(THREADS_MAX)
        self._share = CpuShare()
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[messages.Message]] = {}
        self.hello: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._end_reason = ""

    def open(self) -> None:
        """Begin to read the supervisor's messages."""
        self._connection.setblocking(False)
        self._loop.add_reader(self._connection, self._readable)

    @property
    def is_open(self) -> bool:
        """Whether the connection has not ended."""
        return not self._end_reason

    async def load(self, build: Callable[[int], messages.Load], listener: socket.socket) -> None:
        """Donate the listening socket of a storlet; our copy is always closed."""
        with listener:
            await self._request(build, messages.Loaded, [listener.fileno()])

    async def unload(self, version: str) -> None:
        """End a group once its invocations are done."""
        await self._request(lambda number: messages.Unload(number, version), messages.Unloaded)

    async def status(self) -> tuple[messages.Group, ...]:
        """The groups of the sandbox."""
        answer = await self._request(messages.AskStatus, messages.GroupStatus)
        return tuple(answer.groups)

    async def inspect(self) -> dict[str, str]:
        """Kernel files of the sandbox by path, for the comparison with its plan (``readback``)."""
        answer = await self._request(messages.Inspect, messages.Inspected)
        return dict(answer.files)

    async def check(
        self, descriptor: int, allowed: Sequence[str], limits: messages.Resources
    ) -> dict[str, str]:
        """Run the self-test; faults by name.  The caller keeps ``descriptor``."""
        answer = await self._request(
            lambda number: messages.Check(number, allowed, limits),
            messages.Checked,
            [descriptor],
            CHECK_SECONDS,
        )
        return dict(answer.faults)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Callable[[], bool]]:
        """A function for threads that returns whether the supervisor is alive.

        While it holds its end of the connection, its pid cannot belong to another process.
        """
        if self._end_reason:
            raise SandboxLost(self._end_reason)
        with self._connection.dup() as connection:
            yield lambda: _has_peer(connection)

    async def assign(self, identity: Identity) -> None:
        """Turn a pre-warmed supervisor into a tenant's user, for good."""
        await self._request(
            lambda number: messages.Assign(number, identity.uid, identity.gid), messages.Assigned
        )

    def close(self, reason: str = "sandboxd closed the connection") -> None:
        """Close the connection; requests under way raise :class:`SandboxLost`."""
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
            # Includes TimeoutError.  A broken pipe: the end of the connection was not read yet.
            raise SandboxLost(f"the supervisor does not answer: {error or 'too late'}") from error
        finally:
            del self._waiting[number]
        if isinstance(message, kind):
            return message
        if isinstance(message, messages.Refused):
            raise LoadRefused(messages.one_line(message.message))
        raise SandboxLost(f"the supervisor answered with {message.TYPE}")

    def charge(self, seconds: float) -> None:
        """Note CPU time that a message has taken."""
        if not self._share.take(seconds):
            self._lose("the supervisor takes more than its share of sandboxd's CPU time")

    def _readable(self) -> None:
        for _ in range(BURST):
            began = time.thread_time()
            try:
                received = framing.receive(self._connection)
                if received is None:
                    self._lose("the supervisor closed its control connection")
                    return
                is_answer = self._handle(received.message(messages.CONTROL_REPORTS))
            except BlockingIOError:
                return
            except messages.ProtocolError as error:
                self._lose(f"the supervisor broke the protocol: {messages.one_line(str(error))}")
                return
            except OSError as error:
                self._lose(f"the control connection broke: {error.strerror}")
                return
            if not is_answer:
                self.charge(time.thread_time() - began)
            if self._end_reason:
                return

    def _handle(self, message: messages.Hello | messages.Place | _Numbered) -> bool:
        """Return whether the message answers a request, of which sandboxd makes no more than it
        needs.
        """
        if isinstance(message, messages.Hello):
            if not self.hello.done():
                self.hello.set_result(message)
            return False
        if isinstance(message, messages.Place):
            self._begin_move(message)
            return False
        waiting = self._waiting.get(message.request)
        if waiting is None or waiting.done() or not isinstance(message, messages.Message):
            return False
        waiting.set_result(message)
        return True

    def _begin_move(self, place: messages.Place) -> None:
        if len(self._moving) >= MOVES_MAX:
            self._reply_placed(messages.Placed(place.pid))
            return
        task = self._loop.create_task(self._move(place))
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    async def _move(self, place: messages.Place) -> None:
        self.charge(_MOVE_CPU_SECONDS)
        async with self._turns:
            directory = await self._move_worker(place)
        self._reply_placed(messages.Placed(place.pid, directory))

    def _reply_placed(self, placed: messages.Placed) -> None:
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
            self.hello.exception()  # retrieved: there may be no waiting task
        return True
