"""Whole records of an input, part by part.

The file of an object is mapped into memory: a search reads the few bytes that it needs where they
are, and copies none of the others.  Other inputs, such as an object of several segments, are
read into a buffer.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple, Union

from refusal import Refusal
from structure import Block

#: About this much is taken at a time: the loop of Python costs little, and it fits into the second
#: cache of a processor.
BLOCK_BYTES = 1 << 20
#: About this much is mapped at a time, for several parts: to map and to unmap each of them took a
#: tenth of a scan.
WINDOW_BYTES = 8 << 20


class Part(NamedTuple):
    """Whole records: bytes ``start`` to ``end`` of ``memory``, until the next part is taken."""

    memory: Union[bytearray, mmap.mmap]
    start: int
    end: int

    def records(self) -> Block:
        """The records alone; those of a buffer are not copied."""
        if isinstance(self.memory, bytearray):
            return self.memory
        return self.memory[self.start : self.end]


def parts(source: Any, size: int, *, is_searched: bool) -> Iterator[Part]:
    """The records of an input, from which nothing was read.

    :param size: bytes of a record.
    :param is_searched: most bytes are not looked at; else a buffer is as fast.
    :raises ValueError: the input ends within a record.
    """
    wanted = max(BLOCK_BYTES // size, 1) * size
    end = end_of(source) if is_searched else None
    found = read(source, wanted) if end is None else mapped(source, wanted, end)
    total = 0
    for part in found:
        count = part.end - part.start
        total += count
        if count % size:
            raise Refusal(
                f"the object has {total} bytes, which is no multiple of {size}, the length of a"
                " record"
            )
        yield part


def end_of(source: Any) -> int | None:
    """The length of the file that the input is to its end; ``None``: it is no such file."""
    # A range of a file is another class.
    if type(source.raw) is not io.FileIO:
        return None
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def read(source: Any, wanted: int) -> Iterator[Part]:
    buffer = bytearray(wanted)
    while count := source.readinto(buffer):
        yield Part(buffer if count == wanted else buffer[:count], 0, count)


def mapped(source: Any, wanted: int, end: int) -> Iterator[Part]:
    """
    :raises ValueError: the file has become shorter.
    """
    descriptor = source.fileno()
    window = max(WINDOW_BYTES // wanted, 1) * wanted
    at = os.lseek(descriptor, 0, os.SEEK_CUR)
    while at < end:
        offset = at - at % mmap.ALLOCATIONGRANULARITY
        length = min(at + window, end) - offset
        with mmap.mmap(
            descriptor, length, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset
        ) as memory:
            for start in range(at - offset, length, wanted):
                part = Part(memory, start, min(start + wanted, length))
                yield part
                # The progress of a run is the position in the file.
                os.lseek(descriptor, offset + part.end, os.SEEK_SET)
        at = offset + length
