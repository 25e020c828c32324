"""How the engine reads an object without a size: from a pipe, or from a file of blocks.

Of a pipe the engine keeps all bytes if one thread reads CSV, or if it reads JSON.  Then the object
is a file of the engine that is compressed with zstd: of such a file it keeps no bytes, and it
cannot seek in it.  The blocks are raw, not compressed, which costs a copy.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import engine_file
from sql_check import SqlError
from sql_engine import Engine
from sql_pipes import Feeder, Pipes, no_report

#: A frame of zstd begins with its magic number, a descriptor without the size of the content and
#: without a checksum, and a window of one block (RFC 8878, 3.1.1).
FRAME = b"\x28\xb5\x2f\xfd\x00\x38"
BLOCK_BYTES = 128 * 1024
#: A block begins with its size in 21 bits, its type 0 (raw) in 2, and 1 for the last one in 1 bit.
HEADER_BYTES = 3
LAST_BLOCK = b"\x01\x00\x00"


@dataclass(frozen=True)
class Inlet:
    """The object in the call of a reader of the engine.

    :param path: the file.
    :param options: further options of the call, in SQL, each after a comma.
    """

    path: str
    options: str = ""

    def feeder(
        self, source: Any, head: bytes, pipes: Pipes, report: Callable[[], None] = no_report
    ) -> Feeder:
        """The thread that writes ``head`` and then all of ``source`` for the engine."""
        pipe = pipes.taken("input_writer")
        if self.options:
            return Feeder(Blocks(source, head), FRAME, pipe, report)
        return Feeder(source, head, pipe, report)


def piped(pipes: Pipes) -> Inlet:
    """The pipe ``input``, for CSV that several threads read."""
    return Inlet(pipes.paths["input"])


def framed(engine: Engine, pipes: Pipes) -> Inlet:
    """Give the engine the pipe ``input`` as a file of blocks.

    :raises sql_check.SqlError: the image has no ``fsspec``.
    """
    readers: list[PipeFile] = []
    engine_file.register(engine, lambda: PipeFile(pipes, readers), lambda: 0)
    return Inlet(engine_file.PATH, ", compression='zstd'")


class Blocks:
    """The rest of a frame of zstd after :data:`FRAME`, with raw blocks."""

    def __init__(self, source: Any, head: bytes) -> None:
        self._source = source
        self._head = head
        self._is_over = False

    def read(self, size: int) -> bytes:
        """The blocks of up to ``size`` bytes of the object, and nothing after the last block."""
        data = self._head or bytes(self._source.read(size))
        self._head = b""
        if not data:
            last, self._is_over = b"" if self._is_over else LAST_BLOCK, True
            return last
        view, parts = memoryview(data), []
        for at in range(0, len(data), BLOCK_BYTES):
            block = view[at : at + BLOCK_BYTES]
            parts += [(len(block) << 3).to_bytes(HEADER_BYTES, "little"), block]
        return b"".join(parts)


class PipeFile(io.RawIOBase):
    """The pipe ``input``, which one of several files reads.

    The engine opens a file for the names of columns, too.  The size of each is 0, because it
    is not known: of a compressed file the engine reads all.

    :param readers: the one file that reads; none before the first read.
    """

    def __init__(self, pipes: Pipes, readers: list[PipeFile]) -> None:
        super().__init__()
        self._pipes = pipes
        self._readers = readers

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Stay at the start.

        :raises sql_check.SqlError: bytes of a pipe do not come back.
        """
        if offset or whence != io.SEEK_SET or self in self._readers:
            raise SqlError("the engine reads a part of the object again")
        return 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to ``size`` bytes, and none only at the end."""
        if not self._readers:
            self._readers.append(self)
        if self not in self._readers or size is None or size < 0:
            raise SqlError("the engine reads the object twice, or all at once")
        return self._pipes.read("input", size)
