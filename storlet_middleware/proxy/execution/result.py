"""The output of one storlet, which ran at the proxy or at an object node.

:class:`LocalResult` is an invocation of this process; :class:`RemoteResult` is the framed answer of
an object node.  Both are used in the same way:

``first()``   returns when the storlet's first bytes or its successful end are known
``chunks()``  yields the output; ends without an exception only after a success
``close()``   releases everything; cancels the invocation if it has not ended
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from storlet_middleware.backend import frames
from storlet_middleware.concurrency import CONNECTION_ENDED, Timeout
from storlet_middleware.engine import log_pieces
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.log_pieces import LogPiece, ignore
from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.engine.start_times import StartTimes
from storlet_middleware.errors import BackendFailed, StorletError, from_message

#: With further outputs, and for a range, the status line waits so long for the end of a result up
#: to this size.
END_SECONDS: Final = 0.5
END_BYTES: Final = 256 << 10


@dataclass(frozen=True)
class Usage:
    """Resources that an invocation used.

    :param sandbox: the worker's report (``cpu_seconds``, ``peak_memory_bytes``); empty if the
        storlet was stopped before the worker could send it.
    :param services: its use of the store; ``None`` if it has no services.
    """

    sandbox: Mapping[str, Any]
    bytes_in: int
    bytes_out: int
    services: ServiceUsage | None = None

    def as_header(self) -> str:
        """``cpu=0.012;peak-memory=12582912;in=1024;out=512``, in seconds and bytes.

        Unknown values are left out.
        """
        fields = [f"in={self.bytes_in}", f"out={self.bytes_out}"]
        if self.sandbox:
            sandbox = [f"cpu={self.cpu_seconds:.6f}", f"peak-memory={self.peak_memory_bytes}"]
            fields = sandbox + fields
        if self.services is not None:
            fields += [f"{name}={value}" for name, value in self.services.fields().items()]
        return ";".join(fields)

    @property
    def cpu_seconds(self) -> float | None:
        return float(self.sandbox.get("cpu_seconds") or 0) if self.sandbox else None

    @property
    def peak_memory_bytes(self) -> int | None:
        return int(self.sandbox.get("peak_memory_bytes") or 0) if self.sandbox else None


class Result(Protocol):
    """The interface of all results."""

    @property
    def ran_on(self) -> str:
        """``object`` or ``proxy``."""

    @property
    def node(self) -> str:
        """The object node that runs it; empty for this node, and for one without a name."""

    @property
    def span(self) -> tuple[int, int, int] | None:
        """First byte, last byte and size of the input, if the storlet got exactly one range."""

    @property
    def sandbox_seconds(self) -> float:
        """Time that the start in the sandbox took."""

    @property
    def start_times(self) -> StartTimes:
        """The parts of the time until a worker has begun."""

    @property
    def log(self) -> bytes:
        """The invocation's log; complete after :meth:`close`."""

    @property
    def waited_seconds(self) -> float:
        """Time that the invocation was queued for a slot."""

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that the storlet set for its output; complete after :meth:`first`."""

    @property
    def has_run(self) -> bool:
        """True if a worker has started the invocation."""

    @property
    def usage(self) -> Usage:
        """Resources used so far; with the bytes of all outputs."""

    @property
    def length(self) -> int:
        """Bytes of the first output so far."""

    def first(self) -> None:
        """Wait for the first bytes or the end; raises if the storlet fails before."""

    def has_ended(self) -> bool:
        """After :meth:`first`: True if the storlet has succeeded, so that ``usage`` is final.

        Does not wait.  Raises if the storlet is known to have failed.
        """

    def end_within(self, seconds: float, most_bytes: int) -> bool:
        """As :meth:`has_ended`, after a wait of ``seconds``, or until there is more output than
        ``most_bytes``.  A result that ran elsewhere may not wait.
        """

    def chunks(self) -> Iterator[bytes]:
        """The output; raises if it is incomplete."""

    def stalled(self, reason: str) -> StorletError:
        """The error of a reader that has waited for output too long; names what has stalled."""

    def close(self) -> None:
        """Release everything; may be called twice."""


class LocalResult:
    """The output of an invocation of this process.

    :param tell: receives the log in pieces.
    """

    ran_on = "proxy"
    node = ""

    def __init__(
        self,
        invocation: Invocation,
        span: tuple[int, int, int] | None,
        sandbox_seconds: float,
        tell: Callable[[LogPiece], None] = ignore,
    ) -> None:
        self._tell = tell
        self.invocation = invocation
        #: Filled while the storlet runs.
        self.metadata = invocation.metadata
        self.span = span
        self.sandbox_seconds = sandbox_seconds
        self.log = b""
        self._bytes_in = 0

    @property
    def start_times(self) -> StartTimes:
        return self.invocation.start_times

    @property
    def waited_seconds(self) -> float:
        return self.invocation.waited_seconds

    @property
    def has_run(self) -> bool:
        return self.invocation.has_started

    @property
    def usage(self) -> Usage:
        invocation = self.invocation
        # After the close of the invocation, it no longer knows.
        bytes_in = self._bytes_in or invocation.bytes_in()
        used = invocation.service_usage
        return Usage(invocation.usage, bytes_in, invocation.bytes_out, used)

    def first(self) -> None:
        while not self.invocation.output.first(log_pieces.INTERVAL_SECONDS):
            piece = self.invocation.log.due_piece()
            if piece is not None:
                self._tell(piece)

    def has_ended(self) -> bool:
        return self.invocation.output.has_ended()

    def end_within(self, seconds: float, most_bytes: int) -> bool:
        return self.invocation.output.end_within(seconds, most_bytes)

    @property
    def length(self) -> int:
        return self.invocation.output.length

    def chunks(self) -> Iterator[bytes]:
        while True:
            chunk = self.invocation.output.read(log_pieces.INTERVAL_SECONDS)
            piece = self.invocation.log.due_piece()
            if piece is not None:
                self._tell(piece)
            if chunk:
                yield chunk
            elif chunk is not None:
                return

    def stalled(self, reason: str) -> StorletError:
        return self.invocation.stalled(reason)

    def close(self) -> None:
        invocation = self.invocation
        piece = invocation.log.last_piece()
        if piece is not None:
            self._tell(piece)
        self.log = invocation.log.read() or self.log
        self._bytes_in = invocation.bytes_in() or self._bytes_in
        invocation.close()


class BrokenAnswer(BackendFailed):
    """The object node's answer broke off, so the storlet's outcome is unknown.

    ``has_ended``: the connection has ended, probably with the object server, and then Swift queries
    another at once.  Otherwise the answer has stalled or is nonsense, and the next may be, too.
    """

    def __init__(self, message: str, *, has_ended: bool = False) -> None:
        super().__init__(message)
        self.has_ended = has_ended


class RemoteResult:
    """The framed answer of an object node.

    :param answer: Swift's answer, with a mark that :func:`frames.can_decode` accepts.  The result
        owns it and closes it.
    :param node: the node that sent it, by ``[sandbox] node_id``.
    :param tell: receives the log in pieces.
    """

    ran_on = "object"

    def __init__(
        self, answer: Any, node: str = "", tell: Callable[[LogPiece], None] = ignore
    ) -> None:
        self._tell = tell
        self.node = node
        self._body = answer.app_iter
        self._frames = self._read_frames()
        self._head = b""
        self._has_start = False
        self.metadata: dict[str, str] = {}
        self.span: tuple[int, int, int] | None = None
        self.sandbox_seconds = self.waited_seconds = 0.0
        self.start_times = StartTimes()
        self._log = bytearray()
        self._used: dict[str, Any] = {}
        self._bytes_in = 0
        self._bytes_out = 0
        self._is_done = False
        self._has_run = False
        #: The node failed for a reason that holds for all accounts.
        self.is_of_whole_node = False

    @property
    def has_run(self) -> bool:
        return self._has_start or self._has_run

    @property
    def log(self) -> bytes:
        return bytes(self._log)

    @property
    def usage(self) -> Usage:
        return Usage(self._used, self._bytes_in, self._bytes_out)

    def _read_frames(self) -> Generator[bytes, None, None]:
        """The output; ends after a DONE frame with the outcome ``ok``.

        Raises the error of a DONE frame with another outcome, and :class:`BrokenAnswer` if there is
        no DONE frame.  Each chunk of the body is decoded completely before any output of it is
        yielded: it may contain the end, and a failure before the first byte becomes an error
        status.
        """
        decoder = frames.Decoder()
        has_yielded = False
        try:
            for chunk in self._body:
                pieces, failure = self._process(decoder.feed(chunk))
                if failure is None or has_yielded:
                    yield from pieces
                    has_yielded = has_yielded or bool(pieces)
                if failure is not None:
                    raise failure  # noqa: TRY301 - passes the handlers below as errors of feed do
        except StorletError:
            raise
        except (Exception, Timeout) as error:
            # Swift's timeouts are not subclasses of Exception.
            message = f"the object node's answer broke off: {error!r}"[:300]
            has_ended = isinstance(error, CONNECTION_ENDED)
            raise BrokenAnswer(message, has_ended=has_ended) from error
        if not decoder.is_done:
            message = "the object node's answer ended without its last frame"
            raise BrokenAnswer(message, has_ended=True)

    def _process(
        self, decoded: Iterable[tuple[int, bytes | dict[str, Any]]]
    ) -> tuple[list[bytes], StorletError | None]:
        """Store the fields of frames; return their output, and the storlet's error if it failed."""
        pieces: list[bytes] = []
        failure = None
        for kind, payload in decoded:
            if kind == frames.DATA and isinstance(payload, bytes):
                self._require_start()
                self._bytes_out += len(payload)
                pieces.append(payload)
            elif kind == frames.LOG and isinstance(payload, bytes):
                self._log += payload
            elif kind == frames.PIECE and isinstance(payload, dict):
                self._tell(LogPiece(str(payload["text"]), int(payload["skipped_bytes"])))
            elif kind == frames.START and isinstance(payload, dict):
                self._process_start(payload)
            elif isinstance(payload, dict):
                failure = self._process_done(payload)
        return pieces, failure

    def _require_start(self) -> None:
        if not self._has_start:
            raise frames.FrameError("output before its metadata")

    def _process_start(self, message: dict[str, Any]) -> None:
        if self._has_start:
            raise frames.FrameError("a second start")
        self._has_start = True
        self.metadata = {str(key): str(value) for key, value in message["metadata"].items()}
        self._process_times(message)
        if len(message["ranges"]) == 1:
            first, last = message["ranges"][0]
            self.span = (int(first), int(last), int(message["size"]))

    def _process_times(self, message: dict[str, Any]) -> None:
        """The times until the storlet's begin, also of one that fails before its first byte."""
        self.sandbox_seconds = float(message.get("sandbox_seconds") or self.sandbox_seconds)
        self.waited_seconds = float(message.get("waited_seconds") or 0)
        if "start_times" in message:
            self.start_times = StartTimes.of_message(message)

    def _process_done(self, message: dict[str, Any]) -> StorletError | None:
        self._used = dict(message.get("usage") or {})
        self._bytes_in = int(message.get("bytes_in") or 0)
        self._has_run = bool(message.get("has_run"))
        self.is_of_whole_node = bool(message.get("whole_node"))
        self._process_times(message)
        if message.get("outcome") != "ok":
            return from_message(message)
        self._require_start()
        self._is_done = True
        return None

    def first(self) -> None:
        self._head = next(self._frames, b"")

    def has_ended(self) -> bool:
        return self._is_done

    def end_within(self, seconds: float, most_bytes: int) -> bool:
        # The node decides when it sends; this result has no further outputs, so no caller waits.
        return self._is_done

    @property
    def length(self) -> int:
        return self._bytes_out

    def chunks(self) -> Iterator[bytes]:
        if self._head:
            head, self._head = self._head, b""
            yield head
            yield from self._frames

    def stalled(self, reason: str) -> StorletError:
        # The node reports a storlet that stalls, and sends heartbeats until then.
        return BackendFailed(f"the object node stalled: {reason}")

    def close(self) -> None:
        self._frames.close()
        # An iterable of WSGI need not have the method.
        close = getattr(self._body, "close", None)
        if close is not None:
            close()
