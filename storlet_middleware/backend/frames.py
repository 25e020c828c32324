"""The framed answer between the object node that ran a storlet and the proxy: encode, decode, nothing else.

Why frames at all: Swift's proxy asks the next replica for anything but 2xx, abandons a node that is silent, resumes a
broken body on another replica, sends headers before the storlet's success is known, and reads a body in gulps of
``object_chunk_size`` that must be full before it sees any of them.  So the object node answers 200 at once and says
everything in frames; :meth:`Encoder.pad` fills the gulp whenever what was sent must be seen now.

A frame is one byte of kind, four bytes of length (big-endian), and that many bytes:

===== ======== =====================================================================================
kind  name     payload
===== ======== =====================================================================================
0     PAD      zeros, ignored: heartbeat and filler
1     START    JSON: metadata of the output and what was run on what
2     DATA     bytes of the output
3     LOG      bytes of the invocation's log
4     DONE     JSON: the outcome; exactly one, the last; a body without it failed
===== ======== =====================================================================================
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final

VERSION: Final = "1"
PAD, START, DATA, LOG, DONE = range(5)
_HEADER: Final = struct.Struct(">BI")
#: JSON frames are assembled in memory, so their size is bounded; a longer one is not ours.
MAX_JSON: Final = 1 << 20
MAX_FRAME: Final = 1 << 24
# Made once: the library's function would make one for each message.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


class FrameError(ValueError):
    """The bytes are not a framed answer, or not to its end."""


class Encoder:
    """Makes frames and knows how far the proxy's current gulp of ``gulp`` bytes is filled."""

    def __init__(self, gulp: int) -> None:
        self._gulp = gulp
        self._used = 0

    def data(self, chunk: bytes, kind: int = DATA) -> bytes:
        frame = _HEADER.pack(kind, len(chunk)) + chunk
        self._used = (self._used + len(frame)) % self._gulp
        return frame

    def message(self, kind: int, message: dict[str, Any]) -> bytes:
        return self.data(_ENCODER.encode(message).encode(), kind)

    @property
    def is_flushed(self) -> bool:
        """Whether everything sent so far fills whole gulps."""
        return self._used == 0

    def pad(self) -> bytes:
        """A PAD frame that ends exactly where a gulp ends: a whole gulp when nothing is pending."""
        room = self._gulp - self._used
        if room < _HEADER.size:
            room += self._gulp
        return self.data(bytes(room - _HEADER.size), PAD)


class Decoder:
    """Takes the body in pieces of any size and gives frames; DATA and LOG come as they arrive, in parts."""

    def __init__(self) -> None:
        self._header = b""
        self._kind = PAD
        self._left = 0
        self._json = b""
        self.is_done = False

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes | dict[str, Any]]]:
        """Frames and parts of frames in ``chunk``; raises :class:`FrameError` on anything else."""
        at, end = 0, len(chunk)
        while at < end:
            if self.is_done:
                raise FrameError("bytes after the end of a framed answer")
            if not self._left:
                need = _HEADER.size - len(self._header)
                self._header += chunk[at : at + need]
                at += need
                if len(self._header) < _HEADER.size:
                    return
                self._begin()
                if self._left or self._kind in (PAD, DATA, LOG):
                    continue
                raise FrameError("empty JSON frame")
            part = chunk[at : at + self._left] if at or self._left < end else chunk
            at += len(part)
            self._left -= len(part)
            if self._kind in (DATA, LOG):
                yield self._kind, part
            elif self._kind != PAD:
                self._json += part
                if not self._left:
                    yield self._kind, self._end_json()

    def _begin(self) -> None:
        self._kind, self._left = _HEADER.unpack(self._header)
        self._header = b""
        self._json = b""
        if self._kind > DONE or self._left > (MAX_JSON if self._kind in (START, DONE) else MAX_FRAME):
            raise FrameError(f"unknown frame (kind {self._kind}, {self._left} bytes)")

    def _end_json(self) -> dict[str, Any]:
        try:
            message = json.loads(self._json.decode())
        except ValueError as error:
            raise FrameError(f"frame is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise FrameError("frame is not a JSON object")
        self.is_done = self._kind == DONE
        return message
