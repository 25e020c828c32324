"""A storlet's output on its way to a client or into the store, wherever the storlet ran.

Both kinds are used alike: ``first()`` returns when the storlet's first bytes or its successful end are known, ``chunks()``
gives the rest and ends without an exception only after a success, ``close()`` releases everything and cancels what is
not done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from swift.common.utils import close_if_possible

from storlet_middleware.backend import frames
from storlet_middleware.concurrency import Timeout
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.errors import BackendFailed, StorletError, from_message


@dataclass(frozen=True)
class Usage:
    """What a run took.  ``sandbox`` is what the sandbox said of it (``cpu_seconds``, ``peak_memory_bytes``); it is empty when
    the storlet was stopped before it could."""

    sandbox: Mapping[str, Any]
    bytes_in: int
    bytes_out: int

    def as_header(self) -> str:
        """``cpu=0.012;peak-memory=12582912;in=1024;out=512``: seconds and bytes; what is not known is left out."""
        return ";".join([*self._of_sandbox(), f"in={self.bytes_in}", f"out={self.bytes_out}"])

    def for_log(self) -> str:
        """The same in the manner of the operator's log, where ``in`` and ``out`` always came first."""
        return " ".join([f"in={self.bytes_in}", f"out={self.bytes_out}", *self._of_sandbox()])

    def _of_sandbox(self) -> list[str]:
        if not self.sandbox:
            return []
        cpu, memory = self.sandbox.get("cpu_seconds") or 0, self.sandbox.get("peak_memory_bytes") or 0
        return [f"cpu={float(cpu):.6f}", f"peak-memory={int(memory)}"]


class Result(Protocol):
    """``ran_on`` is ``object`` or ``proxy``; ``span`` is the input range ``(first, last, size)`` when there was one;
    ``sandbox_seconds`` is how long it took to start."""

    @property
    def ran_on(self) -> str: ...

    @property
    def span(self) -> tuple[int, int, int] | None: ...

    @property
    def sandbox_seconds(self) -> float: ...

    @property
    def log(self) -> bytes:
        """What the storlet logged; known after :meth:`close`."""

    @property
    def waited_seconds(self) -> float:
        """How long the node let the invocation wait."""

    @property
    def metadata(self) -> dict[str, str]:
        """What the storlet said of its output; known after :meth:`first`."""

    @property
    def has_run(self) -> bool:
        """Whether a worker has begun with it."""

    @property
    def usage(self) -> Usage:
        """What was used so far."""

    def first(self) -> None:
        """Wait for the first bytes or the end; raises when the storlet failed before."""

    def has_ended(self) -> bool:
        """After :meth:`first`, without waiting: whether the storlet has succeeded already, so that ``usage`` is final.

        Raises when it is known to have failed.
        """

    def chunks(self) -> Iterator[bytes]:
        """The output; raises when it is not whole."""

    def close(self) -> None:
        """May be called twice."""


class LocalResult:
    """An invocation in this process."""

    ran_on = "proxy"

    def __init__(self, invocation: Invocation, span: tuple[int, int, int] | None, sandbox_seconds: float) -> None:
        self.invocation = invocation
        self.span = span
        self.sandbox_seconds = sandbox_seconds
        self.log = b""
        self._bytes_in = 0

    @property
    def metadata(self) -> dict[str, str]:
        return self.invocation.metadata

    @property
    def waited_seconds(self) -> float:
        return self.invocation.waited_seconds

    @property
    def has_run(self) -> bool:
        return self.invocation.has_started

    @property
    def usage(self) -> Usage:
        bytes_in = self.invocation.bytes_in() or self._bytes_in
        return Usage(self.invocation.usage, bytes_in, self.invocation.bytes_out)

    def first(self) -> None:
        self.invocation.first()

    def has_ended(self) -> bool:
        return self.invocation.has_ended()

    def chunks(self) -> Iterator[bytes]:
        while True:
            chunk = self.invocation.read()
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        self.log = self.invocation.log_bytes() or self.log
        self._bytes_in = self.invocation.bytes_in() or self._bytes_in
        self.invocation.close()


class BrokenAnswer(BackendFailed):
    """The object node's answer broke off: nobody knows how the storlet did."""


class RemoteResult:
    """The framed answer of an object node.

    :param answer: Swift's answer, which carries the mark of a run; owned from here on.
    """

    ran_on = "object"

    def __init__(self, answer: Any) -> None:
        self._body = answer.app_iter
        self._frames = self._read_frames()
        self._head = b""
        self._has_start = False
        self.metadata: dict[str, str] = {}
        self.span: tuple[int, int, int] | None = None
        self.sandbox_seconds = self.waited_seconds = 0.0
        self.log = b""
        self._used: dict[str, Any] = {}
        self._bytes_in = 0
        self._bytes_out = 0
        self._is_done = False
        self._has_run = False

    @property
    def has_run(self) -> bool:
        return self._has_start or self._has_run

    @property
    def usage(self) -> Usage:
        return Usage(self._used, self._bytes_in, self._bytes_out)

    def _read_frames(self) -> Iterator[bytes]:
        """Data; ends after a DONE frame that says ok, raises what another one says, :class:`BrokenAnswer` without.

        What came in one gulp is looked at as a whole before any of it is given away: the end may be among it, and a failure
        that is known before the first byte is an error status.
        """
        decoder = frames.Decoder()
        has_given = False
        try:
            for chunk in self._body:
                pieces, failure = self._take(decoder.feed(chunk))
                if failure is None or has_given:
                    yield from pieces
                    has_given = has_given or bool(pieces)
                if failure is not None:
                    raise failure  # noqa: TRY301 - an end like the others
        except StorletError:
            raise
        except (Exception, Timeout) as error:
            # Swift's own timeouts are no Exception.
            raise BrokenAnswer(f"the object node's answer broke off: {error!r}"[:300]) from error
        if not decoder.is_done:
            raise BrokenAnswer("the object node's answer ended before its end")

    def _take(self, gulp: Iterable[tuple[int, bytes | dict[str, Any]]]) -> tuple[list[bytes], StorletError | None]:
        """The data of one gulp and how the storlet failed, if it did; all other frames are taken in."""
        pieces: list[bytes] = []
        failure = None
        for kind, payload in gulp:
            if kind == frames.DATA and isinstance(payload, bytes):
                self._require_start()
                self._bytes_out += len(payload)
                pieces.append(payload)
            elif kind == frames.LOG and isinstance(payload, bytes):
                self.log += payload
            elif kind == frames.START and isinstance(payload, dict):
                self._take_start(payload)
            elif isinstance(payload, dict):
                failure = self._take_done(payload)
        return pieces, failure

    def _require_start(self) -> None:
        if not self._has_start:
            raise frames.FrameError("output before its metadata")

    def _take_start(self, message: dict[str, Any]) -> None:
        if self._has_start:
            raise frames.FrameError("a second start")
        self._has_start = True
        self.metadata = {str(key): str(value) for key, value in message["metadata"].items()}
        self.sandbox_seconds = float(message["sandbox_seconds"])
        self.waited_seconds = float(message.get("waited_seconds") or 0)
        if len(message["ranges"]) == 1:
            first, last = message["ranges"][0]
            self.span = (int(first), int(last), int(message["size"]))

    def _take_done(self, message: dict[str, Any]) -> StorletError | None:
        self._used = dict(message.get("usage") or {})
        self._bytes_in = int(message.get("bytes_in") or 0)
        self._has_run = bool(message.get("has_run"))
        self.waited_seconds = float(message.get("waited_seconds") or 0)
        if message.get("outcome") != "ok":
            return from_message(message)
        self._require_start()
        self._is_done = True
        return None

    def first(self) -> None:
        self._head = next(self._frames, b"")

    def has_ended(self) -> bool:
        return self._is_done

    def chunks(self) -> Iterator[bytes]:
        if self._head:
            head, self._head = self._head, b""
            yield head
            yield from self._frames

    def close(self) -> None:
        close_if_possible(self._frames)
        close_if_possible(self._body)
