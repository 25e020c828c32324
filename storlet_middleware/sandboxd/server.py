"""The control socket of the node: requests of the filters (section 5 of PROTOCOL.rst).

Each connection has at most one request under way; nothing more is read until it is answered.  All
sockets are non-blocking and a message is one record, so no client can block another.  A client that
does not read its answers is closed when its socket buffer is full.  A malformed request is refused
and its connection closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import socket
from collections.abc import Iterable
from typing import Final

from storlet_daemon.protocol import framing, messages
from storlet_middleware.errors import INTERNAL, StorletError
from storlet_middleware.sandboxd.acceptor import Acceptor
from storlet_middleware.sandboxd.control import Peer, peer_of
from storlet_middleware.sandboxd.pool.pool import Pool
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: More connections than Swift's workers of a node hold; beyond it the idlest one is closed.
CLIENTS_MAX: Final = 512
#: More groups than fit into a message: one has at least 150 bytes.
_GROUPS_MOST: Final = messages.MESSAGE_MAX // 150
_CUT: Final = (
    "the status of all storlets does not fit into one message: those that were idle longest are"
    " left out"
)


class Client:
    """One connection of a filter; owns the socket."""

    def __init__(self, connection: socket.socket, server: Server) -> None:
        self._connection = connection
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[messages.Message] | None = None
        self.peer: Peer = peer_of(connection)
        self.last_used = self._loop.time()

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return self._task is not None

    def listen(self) -> None:
        """Wait for the next request."""
        self._loop.add_reader(self._connection, self._readable)

    def close(self) -> None:
        """Close the connection; its request continues: others may wait for it."""
        self._loop.remove_reader(self._connection)
        self._connection.close()
        self._server.forget(self)

    def _readable(self) -> None:
        self.last_used = self._loop.time()
        try:
            received = framing.receive(self._connection)
            if received is None:
                self.close()
                return
            request = received.message(messages.NODE_REQUESTS)
        except BlockingIOError:
            return
        except messages.ProtocolError as error:
            log.warning("request refused pid=%d reason=%s", self.peer.pid, shown(error))
            self._send(messages.NodeRefused(messages.BAD_REQUEST, messages.one_line(str(error))))
            self.close()
            return
        except OSError:
            self.close()
            return
        self._loop.remove_reader(self._connection)
        self._task = self._loop.create_task(self._server.answer(request, self.peer))
        self._task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[messages.Message]) -> None:
        self._task = None
        if task.cancelled():
            self.close()
            return
        error = task.exception()
        if error is not None:
            log.error("request failed", exc_info=error)
            answer: messages.Message = messages.NodeRefused(
                INTERNAL, "defect in storlet-sandboxd; see its log"
            )
        else:
            answer = task.result()
        if self._send(answer):
            self.listen()
        else:
            self.close()

    def _send(self, answer: messages.Message) -> bool:
        try:
            framing.send(self._connection, answer)
        except OSError:
            return False  # disconnected, or does not read (BlockingIOError)
        return True


class Server:
    """Owns the request socket and the clients; the pool does the work."""

    def __init__(self, listener: socket.socket, pool: Pool) -> None:
        self._listener = listener
        self._pool = pool
        self._clients: set[Client] = set()
        self._acceptor = Acceptor(listener, self._accepted)

    def open(self) -> None:
        """Begin to accept connections."""
        self._acceptor.open()

    def close(self) -> None:
        """Accept no more connections; requests under way are still answered."""
        self._acceptor.close()
        self._listener.close()
        for client in [client for client in self._clients if not client.is_busy]:
            client.close()

    def forget(self, client: Client) -> None:
        """Remove a closed client."""
        self._clients.discard(client)

    async def answer(self, request: messages.Message, peer: Peer) -> messages.Message:
        """The answer to one request."""
        try:
            if isinstance(request, messages.Prepare):
                return messages.Prepared(
                    str(await self._pool.prepare(request.account, request.storlet, peer.uid))
                )
            if isinstance(request, messages.Acquire):
                return messages.Acquired(
                    str(await self._pool.load(request.account, request.storlet))
                )
            if isinstance(request, messages.AskSelfTest):
                return fitting(await self._pool.self_test())
            return fitting(await self._pool.status())
        except StorletError as error:
            return messages.NodeRefused(
                error.code, messages.one_line(str(error)), error.retry_after
            )

    def _accepted(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if len(self._clients) >= CLIENTS_MAX:
            self._close_idlest()
        client = Client(connection, self)
        self._clients.add(client)
        client.listen()

    def _close_idlest(self) -> None:
        idle = [client for client in self._clients if not client.is_busy]
        with contextlib.suppress(ValueError):  # all are busy: allow one more
            min(idle, key=lambda client: client.last_used).close()


def fitting(status: messages.NodeStatus) -> messages.NodeStatus:
    """``status``, cut to fit into one message, and marked then: without the groups that were idle
    longest, then without the last sandboxes.
    """
    groups = sorted(
        ((at, group) for at, sandbox in enumerate(status.sandboxes) for group in sandbox.groups),
        key=lambda pair: pair[1].idle_seconds,
    )
    kept, sandboxes = min(len(groups), _GROUPS_MOST), len(status.sandboxes)
    cut = status
    while not _fits(cut):
        cut = _shortened(status, sandboxes, groups[:kept])
        if kept:
            kept = kept * 3 // 4
        else:
            sandboxes = sandboxes * 3 // 4
    return cut


def _shortened(
    status: messages.NodeStatus, count: int, groups: Iterable[tuple[int, messages.Group]]
) -> messages.NodeStatus:
    """The first ``count`` sandboxes with some groups, each with the place of its sandbox."""
    of_each: list[list[messages.Group]] = [[] for _ in status.sandboxes]
    for at, group in groups:
        of_each[at].append(group)
    pairs = zip(status.sandboxes, of_each, strict=True)
    sandboxes = [dataclasses.replace(sandbox, groups=tuple(own)) for sandbox, own in pairs][:count]
    return dataclasses.replace(status, sandboxes=sandboxes, images={**status.images, "cut": _CUT})


def _fits(status: messages.NodeStatus) -> bool:
    try:
        framing.encode(status)
    except messages.ProtocolError:
        return False
    return True
