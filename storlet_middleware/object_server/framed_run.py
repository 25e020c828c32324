"""One invocation at an object node, on the object's own file, and its framed answer.

The file's descriptor is given to the sandbox: no byte of the input passes through this process.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware.admission.controller import Slot
from storlet_middleware.backend import frames
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.concurrency import monotonic
from storlet_middleware.config import Config
from storlet_middleware.engine import log_pieces
from storlet_middleware.engine.code_cache import Fetcher
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.log_pieces import LogPiece
from storlet_middleware.engine.task import FileInput
from storlet_middleware.errors import DaemonDown, InternalError, RangeUnsatisfiable, StorletError
from storlet_middleware.object_server.health import Health
from storlet_middleware.object_server.plain_object import StoredObject
from storlet_middleware.wsgi.bodies import ClosingIterator
from storlet_middleware.wsgi.byte_ranges import resolve_range
from storlet_middleware.wsgi.disconnect import ClientGone, ClientWatch

#: Time that output smaller than a chunk of the proxy waits for more before it is padded and sent,
#: from its first byte.
_FLUSH_SECONDS: Final = 0.1

#: The headers of the answer are sent with its first bytes.  Until then Swift's proxy server waits
#: for them in tasks that do not end with their request, so this node would not notice a client that
#: disconnects before the first heartbeat.
_HEADERS_SECONDS: Final = 0.2

#: eventlet buffers an answer until it has this many bytes, or the end.
_GATHERED_BYTES: Final = 4096


@dataclass(frozen=True)
class NodeContext:
    """The parts of an object node that all its runs share."""

    config: Config
    logger: Any
    launcher: Launcher
    fetcher: Fetcher
    health: Health


class _Complete:
    """A complete answer.  The server sends it before it calls ``close``: the proxy does not wait
    until everything of the run is released.
    """

    def __init__(self, answer: bytes, close: Callable[[], None]) -> None:
        self._answer = answer
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        yield self._answer


class FramedRun:
    """One invocation and its framed answer.

    From construction it owns the descriptor in ``stored``, the descriptors that it opens for
    further ranges, the watch of the client, and ``slot`` until the invocation takes the slot over.
    All are released at the end of the frames or at :meth:`close`, whichever comes first; a second
    release does nothing.

    :param environ: the request of the proxy; the run is cancelled if the proxy disconnects.
    :param slot: a slot of this node; ``None`` if the launcher has to acquire one.
    """

    def __init__(
        self,
        context: NodeContext,
        environ: dict[str, Any],
        description: BackendInvocation,
        stored: StoredObject,
        slot: Slot | None,
    ) -> None:
        self._context = context
        self._description = description
        self._size = stored.size
        self._metadata = stored.metadata
        self._fds = [stored.fd]
        self._slot = slot
        self._encoder = frames.Encoder(description.chunk_bytes)
        self._ranges: list[tuple[int, int]] = []
        self._watch = ClientWatch(environ)
        self._chunks = self._frames()
        self._gathered: list[bytes] = []
        self._has_last_frame = False
        self._sandbox_seconds = 0.0

    def gather(self) -> int | None:
        """Run, and return the length of a small answer, which is complete; ``None`` for others.

        eventlet would send no byte of a small answer before its end.  With a known length it is
        sent and read at once.
        """
        size = 0
        for chunk in self._chunks:
            self._gathered.append(chunk)
            size += len(chunk)
            if self._has_last_frame or size >= _GATHERED_BYTES:
                break
        self._watch.pause()
        return size if self._has_last_frame else None

    def body(self) -> Iterable[bytes]:
        """The answer after :meth:`gather`, which owns this run: closing it cancels the run."""
        if self._has_last_frame:
            return _Complete(b"".join(self._gathered), self.close)
        # Not around the frames of a small answer: the server writes nothing between them.
        rest = self._watch.guard(self._chunks)
        return ClosingIterator(itertools.chain(self._gathered, rest), self.close)

    def close(self) -> None:
        """Cancel the run if it has not ended, and release what it owns; may be called twice."""
        self._chunks.close()
        self._release()

    def _frames(self) -> Generator[bytes, None, None]:
        invocation: Invocation | None = None
        outcome: dict[str, Any] = {"outcome": "error"}
        try:
            try:
                invocation = self._invocation()
                yield from self._output(invocation)
                outcome = {"outcome": "ok"}
            except StorletError as error:
                outcome |= self._failed(invocation, error)
            except ClientGone:
                # Without its DONE frame the body counts as a failed run.
                return
            except Exception:
                self._context.logger.exception(
                    "ERROR storlets: invocation %s", self._description.id
                )
                defect = InternalError("internal error at the object node")
                outcome |= self._failed(invocation, defect)
            if invocation is not None:
                piece = invocation.log.last_piece()
                if piece is not None:
                    yield self._piece(piece)
                log = b""
                if self._description.wants_log or outcome["outcome"] != "ok":
                    log = invocation.log.read()
                if log:
                    yield self._encoder.data(log, frames.LOG)
                outcome |= {
                    "usage": invocation.usage,
                    "bytes_in": invocation.bytes_in(),
                    "has_run": invocation.has_started,
                    "waited_seconds": invocation.waited_seconds,
                }
                if outcome["outcome"] != "ok":
                    # There may have been no START.
                    outcome |= self._times(invocation)
                    # The storlet is cancelled before its failure is known.
                    invocation.close()
            last = self._encoder.message(frames.DONE, outcome)
            self._has_last_frame = True
            yield last
        finally:
            try:
                if invocation is not None:
                    invocation.close()
            finally:
                self._release()

    def _failed(self, invocation: Invocation | None, error: StorletError) -> dict[str, Any]:
        """The fields of the last frame for ``error``, which is reported if it is the node's."""
        if invocation is None or not invocation.has_started:
            self._context.health.record_failure(self._description.id, error)
        return error.to_message() | {"whole_node": isinstance(error, DaemonDown)}

    def _release(self) -> None:
        """Close the descriptors, release the slot and end the watch; may be called twice."""
        self._watch.stop()
        while self._fds:
            os.close(self._fds.pop())
        if self._slot is not None:
            self._slot.release()

    def _invocation(self) -> Invocation:
        description, launcher = self._description, self._context.launcher
        effective = launcher.effective(description.storlet, description.limits)
        task = launcher.task(
            description.id,
            dict(description.parameters),
            effective,
            wants_log=description.wants_log,
            keeps_log_tail=description.keeps_log_tail,
            log_delay_seconds=description.log_delay_seconds,
        )
        return Invocation(task, self._inputs())

    def _inputs(self) -> list[FileInput]:
        if not self._description.ranges:
            size = self._size if self._description.storlet.seekable else None
            return [FileInput(self._fds[0], self._metadata, size=size)]
        resolved = [resolve_range(span, self._size) for span in self._description.ranges]
        self._ranges = [one for one in resolved if one is not None]
        if len(self._ranges) < len(resolved):
            # Each range is one input.  Without one of them, the storlet would take the next range
            # for it.
            raise RangeUnsatisfiable(
                f"no byte of the {self._size} bytes of the object is in the range"
            )
        inputs = []
        for index, (first, last) in enumerate(self._ranges):
            if index:
                # Duplicates of a descriptor share one file offset; each range needs an offset of
                # its own.
                self._fds.append(
                    os.open(f"/proc/self/fd/{self._fds[0]}", os.O_RDONLY | os.O_CLOEXEC)
                )
            inputs.append(FileInput(self._fds[index], self._metadata, first, last))
        return inputs

    def _output(self, invocation: Invocation) -> Iterator[bytes]:
        began = monotonic()
        heartbeat = self._context.config.placement.heartbeat_seconds
        if self._description.log_delay_seconds == 0:
            # The caller waits for the lines.
            heartbeat = min(heartbeat, log_pieces.INTERVAL_SECONDS)
        wait = min(heartbeat, _HEADERS_SECONDS)
        launcher, fetcher = self._context.launcher, self._context.fetcher
        intervals = (wait, heartbeat)
        for _ in launcher.start_with_heartbeats(
            invocation, self._description.storlet, fetcher, intervals, self._slot
        ):
            yield self._encoder.pad()
        handed_over = monotonic()
        self._sandbox_seconds = max(0.0, handed_over - began - invocation.waited_seconds)
        while not invocation.output.first(wait):
            yield from self._beat(invocation)
            wait = heartbeat
        start = {
            "metadata": invocation.metadata,
            "size": self._size,
            "ranges": self._ranges,
            **self._times(invocation),
        }
        self._context.health.record_success()
        yield self._encoder.message(frames.START, start)
        flush_at = monotonic() + _FLUSH_SECONDS
        while True:
            was_flushed, chunks = self._encoder.is_flushed, self._encoder.chunks
            wait = heartbeat if was_flushed else max(0.0, flush_at - monotonic())
            chunk = invocation.output.read(wait)
            if chunk is None:
                yield from self._beat(invocation)
            elif chunk:
                yield self._encoder.data(chunk)
                piece = invocation.log.due_piece()
                if piece is not None:
                    yield self._piece(piece)
                if was_flushed or self._encoder.chunks > chunks:
                    flush_at = monotonic() + _FLUSH_SECONDS
                elif monotonic() >= flush_at:
                    # Further output may come all the time, in small pieces.
                    yield from self._beat(invocation)
            else:
                return

    def _times(self, invocation: Invocation) -> dict[str, Any]:
        return {
            "sandbox_seconds": self._sandbox_seconds,
            "waited_seconds": invocation.waited_seconds,
            "start_times": vars(invocation.start_times),
        }

    def _beat(self, invocation: Invocation) -> Iterator[bytes]:
        """A heartbeat; new lines of the log replace a part of its zeros."""
        piece = invocation.log.due_piece()
        if piece is not None:
            yield self._piece(piece)
        yield self._encoder.pad()

    def _piece(self, piece: LogPiece) -> bytes:
        return self._encoder.message(frames.PIECE, dataclasses.asdict(piece))
