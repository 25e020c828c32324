"""The frames in which an object node sends a storlet's output to the proxy: encoder and decoder.

Swift's proxy server tries the next replica after every status but 2xx, abandons an idle node, and
resumes a broken body on another replica.  It sends headers before the storlet's success is known.
It reads a body in chunks of ``object_chunk_size`` bytes, and forwards only full chunks.  So the
object node answers 200 at once and sends everything else in frames; :meth:`Encoder.pad` fills the
current chunk when the frames so far must arrive now.

The answer header ``X-Backend-Storlet-Run`` marks a framed answer; its value is the version of this
format.  The request lists the versions that the proxy can decode, and a node sends frames in one of
those only.  A proxy that gets a version that it cannot decode closes the answer and runs the
storlet itself.  A decoder ignores unknown keys of JSON frames, so a new key needs no new version; a
new kind of frame does, unless the request has a key for it, as for PIECE.

A frame is one byte of kind, four bytes of length (big-endian), and ``length`` bytes of payload:

===== ======== =====================================================================================
kind  name     payload
===== ======== =====================================================================================
0     PAD      zeros, ignored: heartbeat and filler
1     START    JSON: metadata of the output, size and ranges of the input, time that the start took
2     DATA     bytes of the output
3     LOG      bytes of the invocation's log
4     DONE     JSON: the outcome; exactly one, the last frame; a body without it is a failed run
5     PIECE    JSON: lines of the log while the storlet runs; only if the request has ``log_delay``
===== ======== =====================================================================================
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final

#: The version that an encoder of this module writes.
VERSION: Final = "1"
#: The versions that a decoder of this module reads.
DECODABLE: Final = (VERSION,)
PAD, START, DATA, LOG, DONE, PIECE = range(6)
_JSON_KINDS: Final = (START, DONE, PIECE)
_HEADER: Final = struct.Struct(">BI")
#: JSON frames are assembled in memory, so their size is bounded; a longer one is not a frame.
MAX_JSON: Final = 1 << 20
MAX_FRAME: Final = 1 << 24
# Made once: ``json.dumps`` with options makes an encoder for each message.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()


class FrameError(ValueError):
    """The bytes are not a complete framed answer."""


def can_decode(version: str) -> bool:
    """True if :class:`Decoder` reads frames of ``version`` (the mark's value)."""
    return version in DECODABLE


class Encoder:
    """Makes frames, and counts the bytes, which the proxy gets in whole chunks.

    :param chunk_bytes: the proxy's ``object_chunk_size`` in bytes.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        #: Bytes in the chunk that is not full yet.
        self._begun_bytes = 0
        #: The number of whole chunks, which the proxy has got, or gets at once.
        self.chunks = 0
        #: True if the frames so far fill whole chunks, so that the proxy gets all of them.
        self.is_flushed = True

    def data(self, chunk: bytes, kind: int = DATA) -> bytes:
        """A frame with ``chunk``; several if it is longer than a frame may be, as a log can be."""
        if len(chunk) > MAX_FRAME:
            starts = range(0, len(chunk), MAX_FRAME)
            return b"".join(self.data(chunk[at : at + MAX_FRAME], kind) for at in starts)
        frame = _HEADER.pack(kind, len(chunk)) + chunk
        whole, self._begun_bytes = divmod(self._begun_bytes + len(frame), self._chunk_bytes)
        self.chunks += whole
        self.is_flushed = not self._begun_bytes
        return frame

    def message(self, kind: int, message: dict[str, Any]) -> bytes:
        return self.data(_ENCODER.encode(message).encode(), kind)

    def pad(self) -> bytes:
        """A PAD frame that ends where the current chunk ends; a whole chunk when none is begun."""
        room = self._chunk_bytes - self._begun_bytes
        if room < _HEADER.size:
            room += self._chunk_bytes
        return self.data(bytes(room - _HEADER.size), PAD)


class Decoder:
    """Decodes a body in pieces of any size; DATA and LOG frames may come out in parts."""

    def __init__(self) -> None:
        self._header = b""
        self._kind = PAD
        self._left = 0
        self._json = b""
        self.is_done = False

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes | dict[str, Any]]]:
        """Frames and parts of frames in ``chunk``; raises :class:`FrameError` for others."""
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
        limit = MAX_JSON if self._kind in _JSON_KINDS else MAX_FRAME
        if self._kind > PIECE or self._left > limit:
            raise FrameError(f"unknown frame (kind {self._kind}, {self._left} bytes)")

    def _end_json(self) -> dict[str, Any]:
        try:
            message = _DECODER.decode(self._json.decode())
        except ValueError as error:
            raise FrameError(f"frame is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise FrameError("frame is not a JSON object")
        self.is_done = self._kind == DONE
        return message
