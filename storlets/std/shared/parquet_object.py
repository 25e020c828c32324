"""An object of Parquet as a file of the engine: only what a query needs is read.

The input is seekable.  Of the object only the footer and the column chunks are read.

The engine drops the nanoseconds of timestamps and times in UTC, and keeps those of local ones.  So
it reads a footer that says that they are local; :mod:`parquet_view` makes timestamps in UTC again.
"""

from __future__ import annotations

import io
import re
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import engine_file
from sql_check import SqlError
from sql_engine import Engine

#: The condition of a decimal that the engine reads as another number, over ``parquet_schema()``.
TOO_WIDE = (
    "(coalesce(precision, 0) > 38"
    " OR coalesce(TRY_CAST(regexp_extract(logical_type, 'precision=([0-9]+)', 1) AS INT), 0) > 38)"
)
#: The end of an object: the length of its footer, and the magic bytes.
END, MAGIC = struct.Struct("<I4s"), b"PAR1"
#: The footer of an object with as many columns does not fit into the memory of the engine.
MOST_FOOTER_BYTES = 64 << 20
#: The logical types TIMESTAMP and TIME with the unit NANOS, in the compact protocol of Thrift.  The
#: second byte says whether the value is in UTC.
NANOSECONDS = re.compile(rb"([\x7c\x8c])([\x11\x12])\x1c\x3c\0{4}")
TIMESTAMP, IN_UTC, LOCAL = b"\x8c", b"\x11", b"\x12"


def no_report() -> None:
    """Nothing is reported."""


def register(engine: Engine, source: Any, report: Callable[[], None] = no_report) -> None:
    """Give the engine the object as the file :data:`engine_file.PATH`.

    :param source: a seekable input.
    :param report: called after each read.
    :raises SqlError: the image has no ``fsspec``.
    """
    lock = threading.Lock()
    places = [place for place, _, is_in_utc in nanoseconds(source) if is_in_utc]
    engine_file.register(
        engine, lambda: Handle(source, lock, report, places), lambda: int(source.size)
    )
    # The object does not change, so its footer is read once.
    engine.rows("SET parquet_metadata_cache = true")


def nanoseconds(source: Any) -> list[tuple[int, bool, bool]]:
    """The logical types with nanoseconds in the footer of a seekable object, in their order.

    :return: the place of the byte that says whether values are in UTC, whether the type is a
        timestamp, and whether it is in UTC.
    """
    size = int(source.size)
    if size < END.size:
        return []
    source.seek(size - END.size)
    end = bytes(source.read(END.size))
    if len(end) < END.size:
        return []
    length, magic = END.unpack(end)
    start = size - END.size - length
    if magic != MAGIC or start < 0 or length > MOST_FOOTER_BYTES:
        # The engine reports what is wrong.
        return []
    source.seek(start)
    footer = bytes(source.read(length))
    return [
        (start + match.start(2), match[1] == TIMESTAMP, match[2] == IN_UTC)
        for match in NANOSECONDS.finditer(footer)
    ]


class Handle(io.RawIOBase):
    """An opened file: a position of its own in the object.

    :param local: places of the bytes that are read as :data:`LOCAL`.
    """

    def __init__(
        self,
        source: Any,
        lock: threading.Lock,
        report: Callable[[], None],
        local: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self._source = source
        self._lock = lock
        self._report = report
        self._local = local
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        with self._lock:
            self._source.seek(self._at)
            data = bytes(self._source.read(-1 if size is None else size))
        if size is not None and len(data) < size:
            # The engine would take what its buffer had before, or repeat the read without end.
            raise SqlError(f"the object is no valid Parquet: it ends before byte {self._at + size}")
        for place in self._local:
            if self._at <= place < self._at + len(data):
                before = place - self._at
                data = data[:before] + LOCAL + data[before + 1 :]
        self._at += len(data)
        self._report()
        return data
