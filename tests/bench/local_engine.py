"""DuckDB in the benchmark's client: over a local file, over a GET that arrives, over ranges."""

from __future__ import annotations

import datetime as dt
import fcntl
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final, Protocol

import duckdb
import fsspec

from tests.bench.http import Request, Sink

#: Threads of the engine, as in ``storlets/std/shared/sql_engine.py``.
THREADS: Final = min(2, len(os.sched_getaffinity(0)))
_PIPE_BYTES: Final = 1 << 20
_RANGED: Final = "ranged://object"

Rows = list[tuple[Any, ...]]


class Exchange(Protocol):
    """A connection, of which this needs one method."""

    def exchange(self, request: Request, sink: Sink, /) -> object:
        """Send a request; ``sink`` gets the body of the answer."""


def rows_of(query: str, threads: int = THREADS) -> Rows:
    """The rows of a query.

    :raises RuntimeError: the engine refuses it.
    """
    with duckdb.connect(config={"threads": threads}) as engine:
        try:
            return engine.execute(query).fetchall()
        except duckdb.Error as error:
            raise RuntimeError(f"DuckDB: {error}") from error


def over_stream(connection: Exchange, request: Request, query: Callable[[str], str]) -> Rows:
    """The rows of a query over a response, which the engine reads while it arrives.

    :param query: gives the query for the path of the data.
    """
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def run() -> Rows:
        try:
            return rows_of(query(f"/proc/self/fd/{reader}"))
        finally:
            # A write for an engine that has failed must not wait.
            os.close(reader)

    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(run)
        with io.FileIO(writer, "wb") as pipe:
            try:
                connection.exchange(request, lambda data: _write(pipe, data))
            except BrokenPipeError:
                # The engine's error is the reason; without one, it has left rows unread.
                found.result()
                raise
        return found.result()


def over_file(connection: Exchange, request: Request, query: Callable[[str], str]) -> Rows:
    """The same over a response that is kept in memory first, for formats that need all of it."""
    with io.FileIO(os.memfd_create("response"), "wb") as file:
        connection.exchange(request, lambda data: _write(file, data))
        return rows_of(query(f"/proc/self/fd/{file.fileno()}"))


def over_ranges(size: int, read: Callable[[int, int], bytes], query: Callable[[str], str]) -> Rows:
    """The rows of a query whose engine requests ranges of the object.

    DuckDB's extension ``httpfs`` does this, too; it is no part of its package.

    :param size: of the object, in bytes.
    :param read: gives the data of a range: the first offset, and how many bytes.
    """

    class Ranges(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "ranged"

        def open(self, _path: str, mode: str = "rb", **_: Any) -> _Handle:
            return _Handle(size, read)

        def exists(self, _path: str, **_: Any) -> bool:
            return True

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": size, "type": "file"}

        def size(self, _path: str) -> int:
            return size

        def modified(self, _path: str) -> dt.datetime:
            return dt.datetime.fromtimestamp(0, dt.UTC)

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

    # The engine seeks and reads in two calls, between which another thread could seek.
    with closing(duckdb.connect(config={"threads": 1})) as engine:
        engine.register_filesystem(Ranges(skip_instance_cache=True))
        return engine.execute(query(_RANGED)).fetchall()


class _Handle(io.RawIOBase):
    """The object as a file, each read of which is a request."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = self._size - self._at
        data = self._read(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data


def _write(file: io.FileIO, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]
