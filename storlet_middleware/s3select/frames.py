"""Reads the output of ``std:s3-select``: frames with a kind, a length and data.

The sandbox is the tenant's, so nothing of it is trusted: a frame that is too long, a kind that is
not known and an output without a last frame are errors.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from storlet_middleware.s3select.fault_codes import SelectFault, known

_HEAD: Final = struct.Struct(">cI")
_COUNTS: Final = struct.Struct(">QQ")
_MOST_BYTES: Final = 64 * 1024
_INTERNAL: Final = "InternalError"


@dataclass(frozen=True)
class Records:
    """Data of the result; a record may continue in the next frame."""

    data: bytes


@dataclass(frozen=True)
class Progress:
    """Bytes so far: of the object, and of it without compression."""

    scanned: int
    processed: int


@dataclass(frozen=True)
class Stats(Progress):
    """The same of a complete result; the last frame."""


Frame = Records | Progress | Stats


def read(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """The frames of an output; the last one is :class:`Stats`.

    :raises SelectFault: the query has failed, or the output is cut or not valid.
    """
    left = iter(chunks)
    is_complete = False
    for kind, data in _split(left):
        if is_complete:
            raise SelectFault(_INTERNAL, "the output of the query continues after its end")
        if kind == b"E":
            # Read on: a run whose output is not read to its end counts as abandoned.
            for _ in left:
                pass
            raise _fault(data)
        frame = _frame(kind, data)
        is_complete = isinstance(frame, Stats)
        yield frame
    if not is_complete:
        raise SelectFault(_INTERNAL, "the result is cut")


def _split(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Kind and data of each frame, up to the success of the run.

    :raises SelectFault: a frame is too long, or cut.
    """
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        while len(rest) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(rest)
            if size > _MOST_BYTES:
                raise SelectFault(_INTERNAL, "the output of the query is not valid")
            end = _HEAD.size + size
            if len(rest) < end:
                break
            data = bytes(rest[_HEAD.size : end])
            del rest[:end]
            yield kind, data
    if rest:
        raise SelectFault(_INTERNAL, "the result is cut")


def _frame(kind: bytes, data: bytes) -> Frame:
    if kind == b"R":
        return Records(data)
    if kind not in (b"P", b"S") or len(data) != _COUNTS.size:
        raise SelectFault(_INTERNAL, "the output of the query is not valid")
    counts = _COUNTS.unpack(data)
    return Progress(*counts) if kind == b"P" else Stats(*counts)


def _fault(data: bytes) -> SelectFault:
    try:
        document = json.loads(data)
        return SelectFault(known(str(document["code"])), str(document["text"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return SelectFault(_INTERNAL, "the output of the query is not valid")
