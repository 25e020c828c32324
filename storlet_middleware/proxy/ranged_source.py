"""An object as an input in which a storlet can seek: ranged reads of one version.

The first read of the object is a GET like that of any input, so Swift's authorization, the grants
of the run and the rules decide about it; it also gives the size and the ETag.  Every further range
is the same GET with ``Range``, so every read is checked like the first one.  An answer with another
size or ETag is of another version: then the run ends, and no byte of it reaches the storlet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

from swift.common.utils import close_if_possible

from storlet_middleware import errors
from storlet_middleware.errors import (
    AccessDenied,
    BackendFailed,
    BadRequest,
    RangeUnsatisfiable,
    StorletError,
)
from storlet_middleware.wsgi.bodies import SourceAnswer
from storlet_middleware.wsgi.byte_ranges import ByteRange
from storlet_middleware.wsgi.storlet_request import ObjectPath
from storlet_middleware.wsgi.subrequest import SwiftRefusal

#: The first range that is read, to learn the object's size.
FIRST: Final[ByteRange] = (0, 65535)
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Reader(Protocol):
    """Reads objects as the caller can read them; see :class:`~.caller_reads.CallerReads`."""

    def get_in_turn(self, path: ObjectPath, headers: dict[str, str]) -> SourceAnswer:
        """Swift's answer to the caller's GET."""

    def body(self, answer: SourceAnswer) -> Iterable[bytes]:
        """The bytes of an answer; iteration raises unless they are complete."""


class UnseekableInput(BadRequest):
    """No storlet can seek in the object."""


class RangedSource:
    """A :class:`~storlet_middleware.engine.reads.RandomSource`: one version of an object.

    :param answer: to the GET with the range :data:`FIRST`, or without one; it is read and closed.
    :raises UnseekableInput: the object cannot be read by ranges.
    """

    def __init__(self, reader: Reader, path: ObjectPath, answer: SourceAnswer) -> None:
        self._reader = reader
        self._path = path
        self._etag = _etag_of(answer)
        self._first = b""
        span = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range") or "")
        size = int(span[3]) if span else answer.content_length
        if size is None or not self._etag:
            raise UnseekableInput(
                f"/{path.container}/{path.name}: Swift knows no size or no ETag of the object, so"
                " a storlet cannot seek in it"
            )
        self._size = size
        if span:
            self._first = self._read(answer)

    @property
    def size(self) -> int:
        return self._size

    def read(self, first: int, length: int) -> bytes:
        """See :class:`~storlet_middleware.engine.reads.RandomSource`."""
        last = first + length - 1
        if last < len(self._first):
            return self._first[first : last + 1]
        answer = self._get({"Range": f"bytes={first}-{last}"})
        if _etag_of(answer) != self._etag or not self._has_range(answer, first, last):
            close_if_possible(answer.app_iter)
            raise self._changed()
        data = self._read(answer)
        if len(data) != length:
            raise BackendFailed(f"Swift gave {len(data)} of {length} bytes of an input")
        return data

    def close(self) -> None:
        """Nothing to do: every answer was read."""

    def _get(self, headers: dict[str, str]) -> SourceAnswer:
        try:
            return self._reader.get_in_turn(self._path, headers)
        except RangeUnsatisfiable:
            raise self._changed() from None  # a shorter object
        except SwiftRefusal as refusal:
            raise self._refused(refusal) from refusal

    def _refused(self, refusal: SwiftRefusal) -> StorletError:
        close_if_possible(refusal.answer.app_iter)
        status = refusal.answer.status_int
        if status in {404, 412}:
            return self._changed()
        if status in {401, 403}:
            return AccessDenied("the caller may not read the input any more", status=status)
        return BackendFailed(f"Swift answered {status} to a read of an input")

    def _has_range(self, answer: SourceAnswer, first: int, last: int) -> bool:
        found = answer.headers.get("Content-Range")
        return answer.status_int == 206 and found == f"bytes {first}-{last}/{self._size}"

    def _read(self, answer: SourceAnswer) -> bytes:
        """All bytes of an answer, which is closed."""
        pieces, left = [], answer.content_length or 0
        try:
            for piece in self._reader.body(answer):
                pieces.append(piece)
                left -= len(piece)
                if left < 0:
                    raise BackendFailed("Swift gave more than a range of an input")
        finally:
            close_if_possible(answer.app_iter)
        return b"".join(pieces)

    def _changed(self) -> StorletError:
        text = (
            f"/{self._path.container}/{self._path.name} was replaced or deleted while the storlet"
            " read it; retry"
        )
        return StorletError(text, code=errors.INPUT_CHANGED)


def _etag_of(answer: SourceAnswer) -> str:
    return (answer.headers.get("Etag") or "").strip('"')
