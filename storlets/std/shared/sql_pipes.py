"""The pipes of a run of the engine, and the thread that writes the object into one of them."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

BLOCK_BYTES = 256 * 1024
PIPE_BYTES = 1 << 20


class Place:
    """The descriptors that the engine opens by their paths."""

    def adopt(self, name: str, descriptor: int) -> int:
        """Take ownership of the file ``name``; return the descriptor that it has from now on."""
        return descriptor

    def release(self, descriptor: int) -> None:
        """Close a descriptor of this place, or another one."""
        os.close(descriptor)

    @staticmethod
    def path_of(descriptor: int) -> str:
        """The path by which the engine opens a descriptor."""
        return f"/proc/self/fd/{descriptor}"


class Pipes:
    """Pipes that the engine opens by their paths; each of our ends is closed once.

    :param names: ``input``, which the engine reads, and ``output``, which it writes.
    :param place: of the ends of the engine.
    :ivar paths: the path of each, for the engine.
    """

    def __init__(self, *names: str, place: Place | None = None) -> None:
        self.place = place or Place()
        self._ends: dict[str, int] = {}
        self.paths: dict[str, str] = {}
        for name in names:
            reader, writer = os.pipe()
            is_input = name == "input"
            engine = self.place.adopt(name, reader if is_input else writer)
            reader, writer = (engine, writer) if is_input else (reader, engine)
            self._ends |= {f"{name}_reader": reader, f"{name}_writer": writer}
            with suppress(OSError):  # a larger pipe is only faster
                fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            # Opening the path of a pipe never waits, unlike that of a named one.
            self.paths[name] = self.place.path_of(engine)

    def read(self, name: str, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises ValueError: our reading end is closed.
        """
        descriptor = self._ends.get(f"{name}_reader")
        if descriptor is None:
            raise ValueError(f"the pipe {name} is closed")
        return os.read(descriptor, size)

    def taken(self, name: str) -> int:
        """An end that another owner closes."""
        return self._ends.pop(name)

    def descriptor(self, name: str) -> int:
        """An end that stays with this."""
        return self._ends[name]

    def close(self, name: str) -> None:
        """Close an end; idempotent."""
        descriptor = self._ends.pop(name, None)
        if descriptor is not None:
            self.place.release(descriptor)

    def close_all(self) -> None:
        """Close the ends that are still open."""
        for name in list(self._ends):
            self.close(name)

    def blocks(self) -> Iterator[bytes]:
        """The output, until each writer has closed its end."""
        while data := self.read("output", BLOCK_BYTES):
            yield data


class Sample:
    """A file in memory that the engine opens by its path; use with ``with``."""

    def __init__(self, place: Place | None = None) -> None:
        self._place = place or Place()
        self._descriptor = self._place.adopt("sample", os.memfd_create("sample"))
        self.path = self._place.path_of(self._descriptor)

    def __enter__(self) -> Sample:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._place.release(self._descriptor)

    def write(self, data: bytes | memoryview) -> None:
        """Replace the content."""
        os.ftruncate(self._descriptor, 0)
        at, view = 0, memoryview(data)
        while at < len(view):
            at += os.pwrite(self._descriptor, view[at:], at)


@contextmanager
def opened_pipes(*names: str, place: Place | None = None) -> Iterator[Pipes]:
    """The pipes of one run; see :class:`Pipes`."""
    pipes = Pipes(*names, place=place)
    try:
        yield pipes
    finally:
        pipes.close_all()


def no_report() -> None:
    """Nothing is reported."""


class Feeder(threading.Thread):
    """Writes the object into a pipe: the head, then all that ``source`` gives.

    :param report: called after each block.
    :ivar error: the reason why not all of it was written, if it was not the reader.
    """

    def __init__(
        self, source: Any, head: bytes, pipe: int, report: Callable[[], None] = no_report
    ) -> None:
        """Take ownership of the descriptor ``pipe``."""
        super().__init__(name="sql-input", daemon=True)
        self._source = source
        self._head = head
        self._pipe = pipe
        self._report = report
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            data = self._head
            while data and self._written(data):
                self._report()
                data = bytes(self._source.read(BLOCK_BYTES))
        except BaseException as error:  # the run fails with it, in the main thread
            self.error = error
        finally:
            os.close(self._pipe)

    def _written(self, data: bytes) -> bool:
        """Whether the query took it; it may need no more."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._pipe, view) :]
        except BrokenPipeError:
            return False
        return True

    def require_no_error(self) -> None:
        """Raise the error of the input: a result of a part of the object is no result."""
        if self.error is not None:
            raise self.error
