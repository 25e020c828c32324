"""A PUT whose end is withheld until the run has succeeded: nothing is stored before that.

Swift stores an object at the end of its body.  So the end is the commit, and a body that breaks
stores nothing.  All that a run stores goes through a :class:`WithheldPut` each: the result of a PUT
or COPY, and its further outputs.  ::

    write .. write            bytes of the storlet; the writer waits while the buffer is full
    flush                     the run has succeeded: Swift gets all bytes, but not the end
    wait_flushed              Swift has taken them, or has refused the PUT
    release                   the end: Swift stores the object
    answer                    Swift's answer
    close                     in any case; before ``release`` it breaks the PUT

:func:`commit` does the last steps for several PUTs: no end is released before Swift has taken all
bytes of all of them.

**A storlet may pause.**  Swift does not wait for a body for long, and a body has no heartbeat:

* the proxy server waits ``client_timeout`` (60 s) for each read of its ``client_chunk_size``;
* each object server waits its own ``client_timeout`` (60 s) until it has ``network_chunk_size``
  (64 KiB), or with erasure coding its part of a segment (1 MiB);
* an object server that gives up closes the connection. The proxy's next write then fails, and the
  proxy counts that as an error of the node.  After ten of these it stops using the node, for all
  tenants, so it must not happen.

So the last bytes are kept back as a *reserve*.  The PUT begins only when there are more bytes than
the reserve, or when the run has succeeded.  From then on, Swift gets pieces of the full size only.
During a pause it gets one piece of the reserve in each half of ``client_timeout``.  If a pause uses
up the reserve, the PUT is broken, as by a client that disconnects, and the run fails.  An output
that is smaller than the reserve begins after the run, and may pause without a limit.  An account
with many such PUTs has smaller reserves (:mod:`~.buffers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swift.common.exceptions import ChunkReadError, ChunkReadTimeout
from swift.common.storage_policy import EC_POLICY, POLICIES
from swift.common.swob import HTTPInternalServerError, Request, Response
from swift.common.utils import close_if_possible, drain_and_close
from swift.proxy.controllers.base import get_container_info

from storlet_middleware import errors, names
from storlet_middleware.concurrency import (
    Bell,
    GreenTask,
    Killed,
    Timeout,
    end,
    monotonic,
    spawn,
    wait_task,
)
from storlet_middleware.errors import InternalError, StorletError, Unprocessable
from storlet_middleware.proxy.buffers import BufferShare

#: Swift's default of ``network_chunk_size``: an object server's read waits for this size.
_PIECE_BYTES: Final = 64 << 10
#: Pieces in a reserve, and its maximum with the larger pieces of erasure coding.
_RESERVE_PIECES: Final = 16
_RESERVE_BYTES: Final = 8 << 20
#: Bytes beyond the reserve that wait for Swift before the writer has to.
_WINDOW_BYTES: Final = 256 << 10
#: Chunks are joined up to this size: a reserve of single bytes would take 200 times its size.
_JOINED_BYTES: Final = 4096
#: Time that Swift needs at most to end a broken PUT.
_BREAK_SECONDS: Final = 1.0


class BodyBroken(ChunkReadError):
    """Raised into a PUT that must not be stored: Swift sees a client that disconnects."""


class PutRefused(Exception):
    """Swift has answered before the end of the body.

    :param put: the refused one.
    :param answer: its status is no success; the receiver owns it.
    """

    def __init__(self, put: WithheldPut, answer: Response) -> None:
        super().__init__(answer.status)
        self.put = put
        self.answer = answer


@dataclass(frozen=True)
class Reserve:
    """How a body survives pauses; see the module.

    :param piece_bytes: bytes that Swift has to get in each half of its timeout.
    :param size_bytes: bytes that are kept back.
    :param beat_seconds: interval of the pieces.
    """

    piece_bytes: int
    size_bytes: int
    beat_seconds: float

    @classmethod
    def of_pieces(cls, piece_bytes: int, client_timeout_seconds: float) -> Reserve:
        """The reserve for pieces of this size."""
        size = max(piece_bytes, min(_RESERVE_PIECES * piece_bytes, _RESERVE_BYTES))
        return cls(piece_bytes, size, client_timeout_seconds / 2)


def reserve_for(
    environ: dict[str, Any], app: Any, path_info: str, client_timeout_seconds: float
) -> Reserve:
    """The reserve of a PUT of an object, by the storage policy of its container.

    :param path_info: the object's, as in a WSGI environment.
    """
    container = {**environ, "PATH_INFO": "/".join(path_info.split("/", 4)[:4])}
    info = get_container_info(container, app, swift_source=names.SWIFT_SOURCE)
    policy = POLICIES.get_by_index(info.get("storage_policy"))
    is_coded = policy is not None and policy.policy_type == EC_POLICY
    piece = max(policy.ec_segment_size, _PIECE_BYTES) if is_coded else _PIECE_BYTES
    return Reserve.of_pieces(piece, client_timeout_seconds)


class WithheldPut:
    """See the module.  One task writes; one, which may be the same, owns it and closes it.

    :param app: the rest of the pipeline.
    :param put: the PUT (swob), with headers that :mod:`~storlet_middleware.wsgi.stored_headers`
        has accepted; this class sets its body.
    :param share: of the account's memory; this class gives it back.
    :param logger: of the filter; log lines of Swift get the transaction of this task.
    :param stalled: the error of a writer that paused for too long, for a reason.
    """

    def __init__(
        self,
        app: Any,
        put: Request,
        reserve: Reserve,
        share: BufferShare,
        logger: Any,
        stalled: Callable[[str], StorletError] | None = None,
    ) -> None:
        self._app = app
        self._put = put
        self._logger = logger
        self._body = _Body(reserve, share, stalled or _stalled)
        put.environ["wsgi.input"] = self._body
        put.environ["HTTP_TRANSFER_ENCODING"] = "chunked"
        put.environ.pop("CONTENT_LENGTH", None)
        self._task: GreenTask | None = None
        self._feeder: GreenTask | None = None
        self._has_fed = False
        self._answer: Response | None = None
        self._is_answer_taken = False

    # --- the writer -------------------------------------------------------------------------------

    def write(self, chunk: bytes) -> None:
        """Add ``chunk`` to the body; waits while the buffer is full.

        :raises PutRefused: Swift has answered.
        :raises StorletError: the PUT is broken, or there is no memory for ``chunk``.
        """
        self._body.add(chunk)
        if self._task is None and self._body.exceeds_reserve:
            self._begin()
        while True:
            self.require_open()
            if self._body.has_room:
                return
            self._body.room.wait(None)

    def feed(self, chunks: Iterable[bytes]) -> None:
        """Write ``chunks`` in a task of its own; see :meth:`wait_fed`."""
        self._feeder = spawn(self._feed, chunks)

    def _feed(self, chunks: Iterable[bytes]) -> None:
        try:
            for chunk in chunks:
                self.write(chunk)
            self._has_fed = True
        except Killed:
            raise
        except PutRefused as refused:
            # The owner learns a refusal of this PUT from the answer itself.
            if refused.put is not self:
                self._body.break_off(refused)
        except BaseException as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            self._body.break_off(error)
        finally:
            close_if_possible(chunks)
            self._body.state.ring()

    def wait_fed(self) -> None:
        """Return at the end of the chunks; raises what they raise, and as :meth:`write`."""
        while not self._has_fed:
            self.require_open()
            self._body.state.wait(None)

    # --- the owner --------------------------------------------------------------------------------

    def flush(self) -> None:
        """The run has succeeded: send all bytes, but not the end; does not wait."""
        self._body.flush()
        if self._task is None:
            self._begin()

    def wait_flushed(self) -> None:
        """Return when Swift has taken all bytes; raises as :meth:`write`."""
        while not self._body.is_flushed:
            self.require_open()
            self._body.state.wait(None)
        self.require_open()

    def release(self) -> None:
        """Let the body end, after :meth:`wait_flushed`; does not wait."""
        self._body.release()

    def answer(self) -> Response:
        """Swift's answer after :meth:`release`; the caller owns it."""
        while self._answer is None:
            self._body.state.wait(None)
        self._is_answer_taken = True
        return self._answer

    def abort(self) -> None:
        """Break the PUT unless its end was released; does not wait, and :meth:`close` follows."""
        if not self._body.is_released:
            self._body.break_off(BodyBroken("the run has ended"))

    def close(self) -> None:
        """Break the PUT unless its end was released; may be called twice.

        A PUT that was released continues: it must not be stored in a part of its object servers.
        """
        feeder, self._feeder = self._feeder, None
        if feeder is not None:
            end(feeder)
        task, self._task = self._task, None
        if task is not None and not self._body.is_released:
            self.abort()
            wait_task(task, _BREAK_SECONDS)
            end(task)
        self._body.close()
        if self._answer is not None and not self._is_answer_taken:
            self._is_answer_taken = True
            drain_and_close(self._answer)

    # --- Swift's task -----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._task = spawn(self._send, getattr(self._logger, "thread_locals", None))

    def _send(self, thread_locals: Any) -> None:
        if thread_locals is not None:
            self._logger.thread_locals = thread_locals
        try:
            self._answer = self._put.get_response(self._app)
        except Killed:
            raise
        except BaseException as error:
            if self._body.is_released:
                self._logger.exception("ERROR storlets: PUT %s", self._put.environ["PATH_INFO"])
                self._answer = HTTPInternalServerError(request=self._put)
            else:
                self._body.break_off(error)
        finally:
            self._body.state.ring()
            self._body.room.ring()

    def require_open(self) -> None:
        """Raise if Swift has answered before the end of the body, or the PUT is broken; does not
        wait.
        """
        if self._body.error is not None:
            raise self._body.error
        if self._answer is None:
            return
        if self._answer.status_int // 100 == 2:
            raise InternalError("Swift committed before the storlet's output had ended")
        self._is_answer_taken = True
        raise PutRefused(self, self._answer)


def commit(puts: Sequence[WithheldPut]) -> list[Response]:
    """End all ``puts`` of a run that has succeeded; Swift's answers in their order.

    :raises PutRefused: Swift refused one; no end was released, so none is stored.
    """
    for put in puts:
        put.flush()
    for put in puts:
        put.wait_flushed()
    # No wait from here on: all or none.  A PUT may have failed while another one was waited for.
    for put in puts:
        put.require_open()
    for put in puts:
        put.release()
    return [put.answer() for put in puts]


def _stalled(reason: str) -> StorletError:
    return Unprocessable(f"an output paused for too long: {reason}", code=errors.TIMEOUT_IDLE)


class _Body:
    """``wsgi.input`` of the PUT: a buffer between the writer and Swift, which reads."""

    def __init__(
        self, reserve: Reserve, share: BufferShare, stalled: Callable[[str], StorletError]
    ) -> None:
        self._reserve = reserve
        self._share = share
        self._stalled = stalled
        self._views: deque[memoryview] = deque()
        self._size = 0
        #: Bytes of the reserve that a pause has set free.
        self._freed = 0
        #: Bytes that Swift has to get until ``_due``.
        self._missing = 0
        self._due = 0.0
        self._is_flushing = False
        self.is_flushed = False
        self.is_released = False
        self.error: BaseException | None = None
        self._data, self.room, self.state = Bell(), Bell(), Bell()

    # --- the writer and the owner -----------------------------------------------------------------

    @property
    def exceeds_reserve(self) -> bool:
        return self._size > self._reserve_bytes

    @property
    def has_room(self) -> bool:
        return self._size <= self._reserve_bytes + _WINDOW_BYTES

    @property
    def _reserve_bytes(self) -> int:
        """Bytes that are kept back now."""
        return self._reserve.piece_bytes if self._share.is_short else self._reserve.size_bytes

    def add(self, chunk: bytes) -> None:
        if not chunk:
            return
        self._share.add(len(chunk))
        views = self._views
        if views and len(views[-1]) + len(chunk) <= _JOINED_BYTES:
            views[-1] = memoryview(b"".join((views[-1], chunk)))
        else:
            views.append(memoryview(chunk))
        self._size += len(chunk)
        self._data.ring()

    def flush(self) -> None:
        self._is_flushing = True
        self._data.ring()

    def release(self) -> None:
        self.is_released = True
        self._data.ring()

    def break_off(self, error: BaseException) -> None:
        """Break the body; the first error counts."""
        if self.error is None and not self.is_released:
            self.error = error
        for bell in (self._data, self.room, self.state):
            bell.ring()

    def close(self) -> None:
        """Give the memory back unless Swift still reads; no writer may follow."""
        if not self.is_released:
            self._views.clear()
            self._size = 0
        self._share.clear()

    # --- Swift ------------------------------------------------------------------------------------

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; empty at the end, which comes after :meth:`release`.

        :raises BodyBroken: the object must not be stored.
        """
        if not self._due:
            self._begin_piece()
        while self.error is None:
            count = self._available(size)
            if count:
                return self._take(count)
            if self._is_flushing and not self._size:
                self._end_of_data()
                if self.is_released:
                    return b""
            if not self._wait(None if self._is_flushing else self._due - monotonic()):
                self._free_piece()
        raise BodyBroken("the run has failed") from self.error

    def _begin_piece(self) -> None:
        self._missing = self._reserve.piece_bytes
        self._due = monotonic() + self._reserve.beat_seconds

    def _free_piece(self) -> None:
        """Swift needs the rest of a piece, which the writer has not written in time."""
        if self._size < self._missing:
            pieces = self._reserve_bytes // self._reserve.piece_bytes
            seconds = self._reserve.beat_seconds * pieces
            reason = f"Swift waits for the rest of an object for about {seconds:g} s"
            self.break_off(self._stalled(reason))
            return
        self._freed = self._missing
        self._due = monotonic() + self._reserve.beat_seconds

    def _available(self, size: int) -> int:
        """Bytes that a read of ``size`` bytes gives now."""
        if self._is_flushing:
            return self._size if size < 0 else min(self._size, size)
        if size < 0:
            return 0
        if self._freed:
            return min(self._size, size, self._freed)
        excess = self._size - self._reserve_bytes
        # The writer waits when the window is full: a read that needs more gets that.
        least = min(size, self._reserve.piece_bytes, _WINDOW_BYTES)
        return min(excess, size) if excess >= least else 0

    def _take(self, count: int) -> bytes:
        parts, left = [], count
        while left:
            view = self._views.popleft()
            if len(view) > left:
                self._views.appendleft(view[left:])
                view = view[:left]
            parts.append(view)
            left -= len(view)
        self._size -= count
        self._share.remove(count)
        self._freed = max(0, self._freed - count)
        self._missing -= count
        if self._missing <= 0:
            self._begin_piece()
        self.room.ring()
        return b"".join(parts)

    def _end_of_data(self) -> None:
        if not self.is_flushed:
            self.is_flushed = True
            self.state.ring()

    def _wait(self, seconds: float | None) -> bool:
        """Wait for the writer or the owner; False after ``seconds``."""
        try:
            return self._data.wait(seconds)
        except Timeout as timeout:
            # Swift's own timeout is shorter than the one that the reserve is made for.
            if isinstance(timeout, ChunkReadTimeout) and not self.is_released:
                self.break_off(self._stalled(f"no output for {timeout}"))
            raise
