"""An object of Parquet as a file of the engine: only what a query needs is read.

The input is seekable.  Of the object only the footer and the column chunks are read.

The engine drops the nanoseconds of timestamps and times in UTC, and keeps those of local ones.  So
it reads a footer that says that they are local; :mod:`parquet_view` makes timestamps in UTC again.
"""

from __future__ import annotations

import io
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import engine_file
from parquet_types import Nanoseconds, in_local_time, types_with_nanoseconds
from sql_check import SqlError
from sql_engine import Engine, literal
from sql_errors import OBJECT

#: The condition of a decimal that the engine reads as another number, over ``parquet_schema()``.
TOO_WIDE = (
    "(coalesce(precision, 0) > 38"
    " OR coalesce(TRY_CAST(regexp_extract(logical_type, 'precision=([0-9]+)', 1) AS INT), 0) > 38)"
)
_LOGICAL_TYPES = (
    "SELECT coalesce(logical_type, '') FROM"  # noqa: S608
    f" parquet_schema({literal(engine_file.PATH)})"
)
#: The end of an object: the length of its footer, and the magic bytes.
END, MAGIC = struct.Struct("<I4s"), b"PAR1"
#: The end of an object that is read at once: most footers are shorter.
TAIL_BYTES = 16 * 1024
#: The footer of an object with as many columns does not fit into the memory of the engine.
MOST_FOOTER_BYTES = 64 << 20


def no_report() -> None:
    """Nothing is reported."""


def register(engine: Engine, source: Any, report: Callable[[], None] = no_report) -> Footer:
    """Give the engine the object as the file :data:`engine_file.PATH`; return its footer.

    :param source: a seekable input.
    :param report: called after each read.
    :raises SqlError: the image has no ``fsspec``, the object is no Parquet, or only the engine can
        read its footer.
    """
    lock = threading.Lock()
    footer = footer_of(source)
    engine_file.register(
        engine, lambda: Handle(source, lock, report, footer), lambda: int(source.size)
    )
    # The object does not change, so its footer is read once.
    engine.rows("SET parquet_metadata_cache = true")
    try:
        kinds = [kind for (kind,) in engine.rows(_LOGICAL_TYPES)]
    except SqlError as error:
        raise SqlError(f"the object is no valid Parquet: {error}") from None
    _require_types(kinds, footer)
    return footer


def is_timestamp(logical_type: str) -> bool:
    """Whether a type of ``parquet_schema()`` is that of timestamps with nanoseconds."""
    return logical_type.startswith("TimestampType(") and _has_nanoseconds(logical_type)


def _has_nanoseconds(logical_type: str) -> bool:
    return "NANOS=" in logical_type and "NANOS=<null>" not in logical_type


def _require_types(kinds: Iterable[str], footer: Footer) -> None:
    """Raise unless the engine reads the types with nanoseconds that the footer has, as local ones.

    It would drop the nanoseconds of others.
    """
    read = [kind for kind in kinds if _has_nanoseconds(kind)]
    known = [each.is_timestamp for each in footer.types]
    if any("isAdjustedToUTC=1" in kind for kind in read) or [*map(is_timestamp, read)] != known:
        raise SqlError(f"{OBJECT}: its types with nanoseconds have an unusual encoding")


@dataclass(frozen=True)
class Footer:
    """The end of an object, which has the footer.

    :ivar data: the bytes from ``start`` on, as the engine reads them.
    :ivar types: the logical types with nanoseconds in the footer, in their order.
    """

    start: int = 0
    data: bytes = b""
    types: tuple[Nanoseconds, ...] = ()


def footer_of(source: Any) -> Footer:
    """The footer of a seekable object; without data if it cannot be read here."""
    size = int(source.size)
    start = max(size - TAIL_BYTES, 0)
    source.seek(start)
    data = bytes(source.read(size - start))
    if len(data) < max(size - start, END.size):
        return Footer()
    length, magic = END.unpack(data[-END.size :])
    first = size - END.size - length
    if magic != MAGIC or first < 0 or length > MOST_FOOTER_BYTES:
        return Footer()
    if first < start:
        source.seek(first)
        data = bytes(source.read(start - first)) + data
        start = first
    before, footer, end = (
        data[: first - start], data[first - start : -END.size], data[-END.size :]
    )  # fmt: skip
    if len(footer) < length:
        return Footer()
    try:
        types = types_with_nanoseconds(footer)
    except ValueError:
        return Footer()
    if types:
        data = before + in_local_time(footer, types) + end
    return Footer(start, data, types)


class Handle(io.RawIOBase):
    """An opened file: a position of its own in the object.

    :param footer: is read in place of that of the object.
    """

    def __init__(
        self,
        source: Any,
        lock: threading.Lock,
        report: Callable[[], None],
        footer: Footer | None = None,
    ) -> None:
        super().__init__()
        self._source = source
        self._lock = lock
        self._report = report
        self._footer = footer or Footer()
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
        if self._footer.data and self._at >= self._footer.start:
            place = self._at - self._footer.start
            data = self._footer.data[place : None if size is None else place + size]
        else:
            data = self._read_source(size)
        if size is not None and len(data) < size:
            # The engine would take what its buffer had before, or repeat the read without end.
            raise SqlError(f"the object is no valid Parquet: it ends before byte {self._at + size}")
        self._at += len(data)
        self._report()
        return data

    def _read_source(self, size: int | None) -> bytes:
        """Read from a place before the footer, maybe to one within it."""
        before = self._footer.start - self._at if self._footer.data else None
        left = size
        if before is not None:
            left = before if size is None else min(size, before)
        with self._lock:
            self._source.seek(self._at)
            data = bytes(self._source.read(-1 if left is None else left))
        if left is None or left == size or len(data) < left:
            return data
        return data + self._footer.data[: None if size is None else size - left]
