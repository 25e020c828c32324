"""One SELECT over an object of Parquet, with DuckDB shut in.

The input is seekable: of the object only the footer and the column chunks are read that the query
needs.
"""

from __future__ import annotations

import datetime
import io
import threading
from contextlib import ExitStack
from typing import Any

import sql_run
from packages import reason
from sql_check import TABLE, SqlError
from sql_engine import Engine, identifier, literal
from sql_pipes import opened_pipes

try:
    import fsspec
except ImportError:
    fsspec = None

PATH = "object://input"


class ParquetEngine(Engine):
    """The engine of this storlet."""

    storlet = "std:sql-parquet"


class SqlParquet:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        with ExitStack() as stack:
            # The engine seeks and reads in two calls, between which another thread could seek.
            engine = stack.enter_context(ParquetEngine(int(params["memory-mib"]), most_threads=1))
            query = engine.checked(params["query"])
            pipes = stack.enter_context(opened_pipes("output"))
            engine.register(file_system(in_files[0]))
            engine.close_in([PATH, pipes.paths["output"]])
            table = identifier(TABLE)
            try:
                engine.rows(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({literal(PATH)})")
            except SqlError as error:
                raise SqlError(f"the object is no valid Parquet: {error}") from None
            engine.scans(query)
            out_files[0].set_metadata({"Content-Type": sql_run.TYPES[params["output"]]})
            work = sql_run.Work(engine, query, pipes, params["output"], "")
            sql_run.run(work, None, pipes, out_files[0])


def file_system(source: Any) -> Any:
    """A file system with the object as its only file, for the engine."""
    if fsspec is None:
        raise SqlError(reason("std:sql-parquet", "fsspec"))

    class ObjectFileSystem(fsspec.AbstractFileSystem):
        protocol = "object"

        def open(self, path: str, mode: str = "rb", **_: Any) -> Handle:
            return Handle(source, lock)

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

    def __init__(self, source: Any, lock: threading.Lock) -> None:
        super().__init__()
        self._source = source
        self._lock = lock
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
        return data
