"""A storlet's output on its way to a client or into the store, wherever the storlet ran.

Both kinds are used alike: ``first()`` returns when the storlet's first bytes or its successful end are known, ``chunks()``
gives the rest and ends without an exception only after a success, ``close()`` releases everything and cancels what is
not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from swift.common.utils import close_if_possible

from storlet_middleware import frames
from storlet_middleware.concurrency import Timeout
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.errors import BackendFailed, StorletError, from_message


class Result(Protocol):
    """``ran_on`` is ``object`` or ``proxy``; ``span`` is the input range ``(first, last, size)`` when there was one."""

    ran_on: str
    span: tuple[int, int, int] | None
    sandbox_seconds: float
    log: bytes
    bytes_in: int

    @property
    def metadata(self) -> dict[str, str]:
        """What the storlet said of its output; known after :meth:`first`."""

    @property
    def bytes_out(self) -> int:
        """Output so far."""

    @property
    def usage(self) -> dict[str, Any]:
        """CPU time and memory, when the sandbox has said them."""

    def first(self) -> None:
        """Wait for the first bytes or the end; raises when the storlet failed before."""

    def chunks(self) -> Iterator[bytes]:
        """The output; raises when it is not whole."""

    def close(self) -> None:
        """May be called twice."""


class LocalResult:
    """An invocation in this process."""

    ran_on = "proxy"

    def __init__(self, invocation: Invocation, span: tuple[int, int, int] | None, sandbox_seconds: float) -> None:
        self._invocation = invocation
        self.span = span
        self.sandbox_seconds = sandbox_seconds
        self.log = b""
        self.bytes_in = 0

    @property
    def metadata(self) -> dict[str, str]:
        return self._invocation.metadata

    @property
    def bytes_out(self) -> int:
        return self._invocation.bytes_out

    @property
    def usage(self) -> dict[str, Any]:
        return self._invocation.usage

    def first(self) -> None:
        self._invocation.first()

    def chunks(self) -> Iterator[bytes]:
        while True:
            chunk = self._invocation.read()
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        self.log = self._invocation.log_bytes() or self.log
        self.bytes_in = self._invocation.bytes_in() or self.bytes_in
        self._invocation.close()


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
        self.sandbox_seconds = 0.0
        self.log = b""
        self.bytes_in = 0
        self.bytes_out = 0
        self.usage: dict[str, Any] = {}

    def _read_frames(self) -> Iterator[bytes]:
        """Data; ends after a DONE frame that says ok, raises what another one says, :class:`BrokenAnswer` without."""
        decoder = frames.Decoder()
        try:
            for chunk in self._body:
                for kind, payload in decoder.feed(chunk):
                    if kind == frames.DATA and isinstance(payload, bytes):
                        self._require_start()
                        self.bytes_out += len(payload)
                        yield payload
                    elif kind == frames.LOG and isinstance(payload, bytes):
                        self.log += payload
                    elif kind == frames.START and isinstance(payload, dict):
                        self._take_start(payload)
                    elif isinstance(payload, dict):
                        self._take_done(payload)
        except StorletError:
            raise
        except (Exception, Timeout) as error:
            # Swift's own timeouts are no Exception.
            raise BrokenAnswer(f"the object node's answer broke off: {error!r}"[:300]) from error
        if not decoder.is_done:
            raise BrokenAnswer("the object node's answer ended before its end")

    def _require_start(self) -> None:
        if not self._has_start:
            raise frames.FrameError("output before its metadata")

    def _take_start(self, message: dict[str, Any]) -> None:
        if self._has_start:
            raise frames.FrameError("a second start")
        self._has_start = True
        self.metadata = {str(key): str(value) for key, value in message["metadata"].items()}
        self.sandbox_seconds = float(message["sandbox_seconds"])
        if len(message["ranges"]) == 1:
            first, last = message["ranges"][0]
            self.span = (int(first), int(last), int(message["size"]))

    def _take_done(self, message: dict[str, Any]) -> None:
        self.usage = dict(message.get("usage") or {})
        self.bytes_in = int(message.get("bytes_in") or 0)
        if message.get("outcome") != "ok":
            raise from_message(message)
        self._require_start()

    def first(self) -> None:
        self._head = next(self._frames, b"")

    def chunks(self) -> Iterator[bytes]:
        if self._head:
            head, self._head = self._head, b""
            yield head
            yield from self._frames

    def close(self) -> None:
        close_if_possible(self._frames)
        close_if_possible(self._body)
