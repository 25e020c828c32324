"""System calls on descriptors that a sandbox shares do not wait for a storlet's page faults.

The memory that the other side copies from or to is registered with ``userfaultfd``: its copy stops
in the middle for as long as the test likes, as it would for a page on a slow disk.  Each test shows
first that what it replaces does wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from storlet_middleware.engine import handover

USERFAULTFD: Final = {"x86_64": 323, "aarch64": 282}
UFFDIO_API: Final = 0xC018AA3F
UFFDIO_REGISTER: Final = 0xC020AA00
UFFDIO_ZEROPAGE: Final = 0xC020AA04
MISSING: Final = 1
PAGE: Final = mmap.PAGESIZE
#: A call that does not wait takes microseconds, on a busy machine until its thread has its turn.
WAITS_SECONDS: Final = 0.5
RETURNS_SECONDS: Final = 20.0

LIBC: Final = ctypes.CDLL(None, use_errno=True)


class FaultingPage:
    """A page of memory that is not there until :meth:`resolve`."""

    def __init__(self) -> None:
        self.fd = LIBC.syscall(USERFAULTFD[platform.machine()], os.O_CLOEXEC | os.O_NONBLOCK)
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        fcntl.ioctl(self.fd, UFFDIO_API, struct.pack("QQQ", 0xAA, 0, 0))
        self._memory = mmap.mmap(-1, PAGE)
        self._pin = ctypes.c_char.from_buffer(self._memory)
        self.address = ctypes.addressof(self._pin)
        register = struct.pack("QQQQ", self.address, PAGE, MISSING, 0)
        fcntl.ioctl(self.fd, UFFDIO_REGISTER, register)

    def resolve(self) -> None:
        """Let the calls that wait for the page continue."""
        fcntl.ioctl(self.fd, UFFDIO_ZEROPAGE, struct.pack("QQQq", self.address, PAGE, 0, 0))

    def close(self) -> None:
        os.close(self.fd)
        del self._pin
        self._memory.close()


@pytest.fixture
def page() -> Iterator[FaultingPage]:
    one = FaultingPage()
    yield one
    one.close()


class Stopped:
    """A native thread of this process in a system call that waits for ``page``."""

    def __init__(self, page: FaultingPage, call: Callable[[int], object]) -> None:
        self._page = page
        # ctypes releases the interpreter's lock during the call.
        self._thread = threading.Thread(target=call, args=(page.address,))

    def __enter__(self) -> None:
        self._thread.start()
        while not has_fault(self._page.fd):
            pass

    def __exit__(self, *exc_info: object) -> None:
        self._page.resolve()
        self._thread.join()


def has_fault(fd: int) -> bool:
    try:
        return bool(os.read(fd, 32))
    except BlockingIOError:
        return False


def waits(call: Callable[[], object], seconds: float = WAITS_SECONDS) -> bool:
    """Whether ``call`` does not return by itself; it ends when the page is resolved."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return thread.is_alive()


def returns(call: Callable[[], object]) -> bool:
    """Whether ``call`` returns while the page is missing, on a busy machine too."""
    return not waits(call, RETURNS_SECONDS)


def write_one(fd: int) -> Callable[[int], object]:
    return lambda address: LIBC.write(fd, ctypes.c_void_p(address), 1)


def read_one(fd: int) -> Callable[[int], object]:
    return lambda address: LIBC.read(fd, ctypes.c_void_p(address), 1)


def attempt(call: Callable[[], object]) -> None:
    with contextlib.suppress(BlockingIOError):
        call()


def test_a_pipe_makes_its_reader_wait_for_the_writers_memory(page: FaultingPage) -> None:
    """Why streams are no pipes."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with Stopped(page, write_one(writing)):
        assert waits(lambda: attempt(lambda: os.read(reading, 100)))
    for fd in (reading, writing):
        os.close(fd)


def test_output_is_read_while_its_writer_waits_for_memory(page: FaultingPage) -> None:
    reading, writing = handover.stream(reader_is_ours=True)
    os.write(writing, b"before")
    with Stopped(page, write_one(writing)):
        assert returns(lambda: attempt(lambda: os.read(reading, 100)))
        assert returns(lambda: attempt(lambda: os.read(reading, 100)))
    assert os.read(reading, 100) == b"\0"
    for fd in (reading, writing):
        os.close(fd)


def test_input_is_written_while_its_reader_waits_for_memory(page: FaultingPage) -> None:
    reading, writing = handover.stream(reader_is_ours=False)
    os.write(writing, b"first")
    with Stopped(page, read_one(reading)):
        assert returns(lambda: attempt(lambda: os.write(writing, b"second")))
    assert os.read(reading, 100) == b"irstsecond"
    for fd in (reading, writing):
        os.close(fd)


def test_the_offset_of_a_file_is_read_while_its_reader_waits_for_memory(
    page: FaultingPage, tmp_path: Path
) -> None:
    path = tmp_path / "object"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    os.lseek(fd, 4, os.SEEK_SET)
    shared = os.dup(fd)
    with Stopped(page, read_one(shared)):
        assert waits(lambda: os.lseek(fd, 0, os.SEEK_CUR))
        offsets: list[int] = []
        assert returns(lambda: offsets.append(handover.offset(fd)))
        assert offsets == [4]
    assert handover.offset(fd) == 5
    for number in (fd, shared):
        os.close(number)
