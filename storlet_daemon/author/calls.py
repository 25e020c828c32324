"""Calls of one storlet by another: the request, its input, and the result as a file.

:func:`storlet_daemon.author.services.call` is the author's function.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

BUFFER_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024


class Readable(Protocol):
    """A binary file."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes, none at the end."""


class InputWriter:
    """Writes the input of a called storlet in a thread of its own: the called storlet may give
    output before it has read all.

    :param fd: the writing end, which the thread closes.
    """

    def __init__(self, fd: int, source: bytes | Readable) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        is_file = hasattr(source, "read")
        self._source: Any = source if is_file else io.BytesIO(source)  # type: ignore[arg-type]
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._socket:
            try:
                while piece := self._source.read(_PIECE_BYTES):
                    self._socket.sendall(len(piece).to_bytes(4, "big"))
                    self._socket.sendall(piece)
                # Without this end the input counts as incomplete.
                self._socket.sendall(bytes(4))
            except OSError as error:
                if not isinstance(error, (BrokenPipeError, ConnectionResetError)):
                    self._error = error
            except BaseException as error:  # noqa: BLE001 - the reader of the result raises it
                self._error = error

    def raise_error(self) -> None:
        """Raise the exception with which the source could not be read."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread as soon as it writes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class CallResult(io.BufferedReader):
    """The output of a called storlet: a binary file that cannot seek.

    Its end is the success of the storlet: a read raises if the storlet fails.
    """

    def __init__(
        self, stream: io.RawIOBase, facts: Mapping[str, Any], writer: InputWriter | None = None
    ) -> None:
        super().__init__(stream, BUFFER_BYTES)
        self._facts = facts
        self._writer = writer

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the result: the storlet's own, and of the object unless a rule withholds
        it.
        """
        return dict(self._facts.get("metadata") or {})

    @property
    def content_type(self) -> str | None:
        """The content type of the result."""
        return self._facts.get("content_type")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        super().close()


def fields_of(
    storlet: str,
    source: str | bytes | Readable,
    parameters: Mapping[str, str] | None,
    ranges: Iterable[tuple[int, int | None]] | None,
    output: str | None,
) -> dict[str, Any]:
    """The fields of a request; one without a path runs on data."""
    is_data = isinstance(source, (bytes, bytearray, memoryview)) or hasattr(source, "read")
    if not is_data and not isinstance(source, str):
        raise TypeError(f"a storlet is called on a path, bytes or a binary file, not on {source!r}")
    fields: dict[str, Any] = {
        "storlet": storlet,
        "path": None if is_data else source,
        "parameters": dict(parameters or {}) or None,
        "ranges": [_span(*each) for each in ranges or ()] or None,
        "output": output,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _span(start: int, end: int | None) -> dict[str, int]:
    return {"start": start} if end is None else {"start": start, "end": end}
