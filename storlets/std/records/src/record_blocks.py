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


class Part(NamedTuple):
    """Whole records: the bytes of ``memory`` from ``start`` on, until the next part is taken."""

    memory: Union[bytearray, mmap.mmap]
    start: int = 0

    def records(self) -> Block:
        """The records alone; those of a buffer are not copied."""
        return self.memory if isinstance(self.memory, bytearray) else self.memory[self.start :]


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
        count = len(part.memory) - part.start
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
        yield Part(buffer if count == wanted else buffer[:count])


def mapped(source: Any, wanted: int, end: int) -> Iterator[Part]:
    descriptor = source.fileno()
    at = os.lseek(descriptor, 0, os.SEEK_CUR)
    while at < end:
        start = at % mmap.ALLOCATIONGRANULARITY
        count = min(wanted, end - at)
        with mmap.mmap(
            descriptor, start + count, mmap.MAP_SHARED, mmap.PROT_READ, offset=at - start
        ) as memory:
            yield Part(memory, start)
        at += count
        # The progress of a run is the position in the file.
        os.lseek(descriptor, at, os.SEEK_SET)
