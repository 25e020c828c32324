"""Process 1 of one sandbox, seen from the node: its control socket, its connection, its pid."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.acceptor import Acceptor
from storlet_middleware.sandboxd.control import ControlLink, peer_of
from storlet_middleware.sandboxd.errors import EngineUnavailable, SandboxLost
from storlet_middleware.sandboxd.identity import Identity
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.sandbox import process
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: Interval of the checks whether the container still runs, while waiting for the hello.
CHECK_SECONDS: Final = 0.25
#: Interval of the log lines about an event that a storlet may cause in a loop.
LOG_SECONDS: Final = 10.0


class _Repeated:
    """An event that is logged at most once in :data:`LOG_SECONDS`, with its number since then."""

    def __init__(self) -> None:
        self.due = 0.0
        self._times = 0

    def times_to_log(self) -> int:
        """Count one; 0 if it is not to be logged now."""
        self._times += 1
        now = asyncio.get_running_loop().time()
        if now < self.due:
            return 0
        times, self._times, self.due = self._times, 0, now + LOG_SECONDS
        return times


class Supervisor:
    """Owns the control listener, only while it waits for the hello, and then the connection.

    ``on_lost`` is called once with the reason when the connection ends after the hello.
    """

    def __init__(self, node: Node, on_lost: Callable[[str], None]) -> None:
        self._node = node
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._link: ControlLink | None = None
        self._hello: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._pid = 0
        self._key = ""
        self._identity: Identity | None = None
        self._refused, self._unplaced = _Repeated(), _Repeated()

    @property
    def pid(self) -> int:
        """Its pid in our namespace; 0 before its hello, or where it is out of sight."""
        return self._pid

    @property
    def is_connected(self) -> bool:
        """Whether the connection has not ended."""
        return self._link is not None and self._link.is_open

    @property
    def link(self) -> ControlLink:
        """The connection; raises :class:`SandboxLost` when there is none."""
        if self._link is None:
            raise SandboxLost("the sandbox has no supervisor yet")
        return self._link

    # --- hello ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def listening(self, key: str, identity: Identity) -> Iterator[None]:
        """Accept the supervisor's connection in the sandbox's control directory during the block.

        The socket exists only as long as needed: afterwards a tenant's code has nothing to connect
        to or to flood.
        """
        self._key, self._identity = key, identity
        dirs = self._node.paths.sandboxes
        listener = dirs.listen_for_supervisor(key)
        acceptor = Acceptor(listener, self._accepted)
        acceptor.open()
        try:
            yield
        finally:
            acceptor.close()
            listener.close()
            dirs.stop_listening_for_supervisor(key)

    async def hello(self, container_end: Callable[[], Awaitable[str | None]]) -> messages.Hello:
        """Wait for its hello; raises :class:`SandboxLost` when its container ends before.

        ``container_end`` returns how the container ended, or ``None`` while it runs.  Without
        Docker that is unknown: a sandbox with invocations must not be ended for a restart of
        Docker, and the caller's deadline bounds the wait.
        """
        while True:
            await asyncio.wait({self._hello}, timeout=CHECK_SECONDS)
            if self._hello.done():
                return self._hello.result()
            end = None
            with contextlib.suppress(EngineUnavailable):
                end = await container_end()
            if end is not None and not self._hello.done():
                raise SandboxLost(f"the sandbox ended before its supervisor said hello: {end}")

    def _accepted(self, connection: socket.socket) -> None:
        if self._link is not None or self._identity is None:
            connection.close()
            return
        peer = peer_of(connection)
        fault = self._node.check_peer(peer, self._identity)
        if fault:
            self._log_refusal(fault)
            connection.close()
            return
        self._pid = peer.pid
        self._link = ControlLink(connection, self._link_ended, self._move_worker)
        self._link.hello.add_done_callback(self._greeted)
        self._link.open()

    def _log_refusal(self, fault: str) -> None:
        times = self._refused.times_to_log()
        if times:
            log.warning(
                "connection to the supervisor's socket refused key=%s times=%d reason=%s",
                self._key,
                times,
                shown(fault),
            )

    def _greeted(self, hello: asyncio.Future[messages.Hello]) -> None:
        if not hello.cancelled() and hello.exception() is None and not self._hello.done():
            self._hello.set_result(hello.result())

    def _link_ended(self, reason: str) -> None:
        if self._hello.done():
            self._on_lost(reason)
        else:
            self._link = None  # it may reconnect, until its container ends or the deadline passes

    # --- its workers ------------------------------------------------------------------------------

    async def _move_worker(self, place: messages.Place) -> str:
        """Move a new worker, which waits for it, into the control groups of its storlet."""
        directory = ""
        if self._link is not None and self._pid:  # else it and its control groups are out of sight
            with contextlib.suppress(SandboxLost), self._link.watched() as is_alive:
                directory, used = await self._node.moving.call(self._timed_move, place, is_alive)
                self._link.charge(used)
        times = 0 if directory else self._unplaced.times_to_log()
        if times:
            log.warning(
                "worker not placed key=%s version=%s pid=%d times=%d",
                self._key,
                place.version[:12],
                place.pid,
                times,
            )
        return directory

    def _timed_move(self, place: messages.Place, is_alive: Callable[[], bool]) -> tuple[str, float]:
        """:meth:`move_worker`, and its CPU seconds."""
        began = time.thread_time()
        return self.move_worker(place, is_alive), time.thread_time() - began

    def move_worker(self, place: messages.Place, is_alive: Callable[[], bool]) -> str:
        """Move a worker, in a thread; return its control group's directory, or "".

        The thread may have waited: after the supervisor's end, its pid may be another process'.
        """
        if not is_alive():
            return ""
        cgroups = self._node.worker_cgroups
        return cgroups.move_worker(self._pid, place.pid, place.version, place.limits)

    # --- end --------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End the connection from our side; the process keeps running."""
        if self._link is not None:
            self._link.close(reason)

    def kill(self, on_end: Callable[[], None]) -> None:
        """Kill it, and with it all processes of the sandbox, when it is in sight."""
        if self._link is not None and self._pid:
            with contextlib.suppress(SandboxLost, OSError), self._link.watched() as is_alive:
                process.kill(self._pid, is_alive, on_end)
