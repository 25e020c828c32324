"""An object of Parquet as a file of the engine: only what a query needs is read.

The input is seekable.  Of the object only the footer and the column chunks are read.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import engine_file
from engine_file import PATH
from sql_check import TABLE, SqlError
from sql_engine import Engine, identifier, literal
from sql_errors import OBJECT

#: The condition of a decimal that the engine reads as another number, over ``parquet_schema()``.
TOO_WIDE = (
    "(coalesce(precision, 0) > 38"
    " OR coalesce(TRY_CAST(regexp_extract(logical_type, 'precision=([0-9]+)', 1) AS INT), 0) > 38)"
)


def no_report() -> None:
    """Nothing is reported."""


def register(engine: Engine, source: Any, report: Callable[[], None] = no_report) -> None:
    """Give the engine the object as the file :data:`engine_file.PATH`.

    :param source: a seekable input.
    :param report: called after each read.
    :raises SqlError: the image has no ``fsspec``.
    """
    lock = threading.Lock()
    engine_file.register(engine, lambda: Handle(source, lock, report), lambda: int(source.size))
    # The object does not change, so its footer is read once.
    engine.rows("SET parquet_metadata_cache = true")


def create_view(engine: Engine) -> None:
    """Make the registered object the table of the engine.

    :raises SqlError: it is no Parquet, or has decimals that the engine reads as other numbers.
    """
    table = identifier(TABLE)
    try:
        engine.rows(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({literal(PATH)})")
    except SqlError as error:
        raise SqlError(f"the object is no valid Parquet: {error}") from None
    found = engine.rows(
        f"SELECT name FROM parquet_schema({literal(PATH)}) WHERE {TOO_WIDE} LIMIT 1"  # noqa: S608
    )
    if found:
        raise SqlError(f"{OBJECT}: column {found[0][0]}: decimals of over 38 digits are refused")


class Handle(io.RawIOBase):
    """An opened file: a position of its own in the object."""

    def __init__(self, source: Any, lock: threading.Lock, report: Callable[[], None]) -> None:
        super().__init__()
        self._source = source
        self._lock = lock
        self._report = report
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
        self._at += len(data)
        self._report()
        return data
