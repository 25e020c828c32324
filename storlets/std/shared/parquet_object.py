"""An object of Parquet as a file of the engine: only what a query needs is read.

The input is seekable.  Of the object only the footer and the column chunks are read.
"""

from __future__ import annotations

import datetime
import io
import threading
from collections.abc import Callable
from typing import Any

from packages import reason
from sql_check import SqlError

try:
    import fsspec
except ImportError:
    fsspec = None

PATH = "object://input"
#: The condition of a decimal that the engine reads as another number, over ``parquet_schema()``.
TOO_WIDE = (
    "(coalesce(precision, 0) > 38"
    " OR coalesce(TRY_CAST(regexp_extract(logical_type, 'precision=([0-9]+)', 1) AS INT), 0) > 38)"
)


def no_report() -> None:
    """Nothing is reported."""


def file_system(source: Any, storlet: str, report: Callable[[], None] = no_report) -> Any:
    """A file system with the object as its only file, for the engine.

    :param source: a seekable input.
    :param storlet: the storlet that runs, for the error that the image has no ``fsspec``.
    :param report: called after each read.
    :raises SqlError: the image has no ``fsspec``.
    """
    if fsspec is None:
        raise SqlError(reason(storlet, "fsspec"))

    class ObjectFileSystem(fsspec.AbstractFileSystem):
        protocol = "object"

        def open(self, path: str, mode: str = "rb", **_: Any) -> Handle:
            return Handle(source, lock, report)

        def exists(self, path: str, **_: Any) -> bool:
            return True

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": source.size, "type": "file"}

        def size(self, path: str) -> int:
            return int(source.size)

        def modified(self, path: str) -> datetime.datetime:
            return datetime.datetime.fromtimestamp(0, datetime.UTC)

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

    lock = threading.Lock()
    return ObjectFileSystem(skip_instance_cache=True)


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
