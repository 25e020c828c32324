"""The outputs of an invocation: a stream, its reader's pace, the count of all, and the check of
metadata.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from collections.abc import Mapping
from typing import Final

from storlet_middleware import errors
from storlet_middleware.concurrency import forget, sleep
from storlet_middleware.engine.failure import Failure
from storlet_middleware.engine.progress import Progress
from storlet_middleware.errors import Unprocessable

CHUNK_BYTES: Final = 256 * 1024
#: A storlet that writes faster than its reader reads would otherwise occupy the hub: after these
#: bytes, about two milliseconds, other requests have their turn.  A read counts as much as
#: ``_READ_BYTES``, because a small one takes about as long.
_FAIRNESS_BYTES: Final = 4 << 20
_READ_BYTES: Final = 32 << 10
#: A storlet that writes small pieces, and never lets its reader wait, would keep a processor busy
#: with reads.  After ``_SMALL_READS`` reads of less than ``_SMALL_BYTES`` in a row, output gathers
#: for ``_GATHER_SECONDS`` before each further one, until a read is larger.
_SMALL_BYTES: Final = 4096
_SMALL_READS: Final = 16
_GATHER_SECONDS: Final = 0.002
#: Characters of a header's name in HTTP, and UTF-8 as in Swift.  Swift's clients cannot send
#: others; a ':' or a space would break the connections to object servers, and Swift would blame
#: those servers.
_METADATA_KEY: Final = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]|[^\x00-\xa0\s])+")


class OutputStream:
    """Owner of the read end, which does not block."""

    __slots__ = ("_left", "fd", "has_end")

    def __init__(self) -> None:
        self.fd = -1
        #: The end of the output is known; only ``_left`` bytes belong to it.
        self.has_end = False
        self._left = 0

    def end_here(self) -> None:
        """The storlet has succeeded: what is in the stream now is the rest of its output.

        A child process that the storlet left behind may hold the stream open and write on: those
        bytes are never read, and the reader does not wait for the end of the stream.
        """
        self.has_end = True
        self._left = _available(self.fd)

    def read(self) -> bytes | None:
        """Bytes, ``b""`` at the end of the data, ``None`` when there are none now."""
        most = min(CHUNK_BYTES, self._left) if self.has_end else CHUNK_BYTES
        try:
            chunk = os.read(self.fd, most) if most else b""
        except BlockingIOError:
            return None
        self._left -= len(chunk) if self.has_end else 0
        return chunk

    def close(self) -> None:
        """Close the stream; may be called twice."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            forget(fd)
            os.close(fd)


class ReadPace:
    """Keeps the reader of one output from occupying the hub."""

    __slots__ = ("_small_reads", "_unfair_bytes")

    def __init__(self) -> None:
        self._small_reads = 0
        self._unfair_bytes = 0

    def before_read(self) -> None:
        """Let output gather if it comes in small pieces."""
        if self._small_reads > _SMALL_READS:
            sleep(_GATHER_SECONDS)

    def after_read(self, size: int) -> None:
        """Give other requests their turn after some reads."""
        self._small_reads = self._small_reads + 1 if size < _SMALL_BYTES else 0
        self._unfair_bytes += size + _READ_BYTES
        if self._unfair_bytes > _FAIRNESS_BYTES:
            self._unfair_bytes = 0
            sleep()


class OutputCount:
    """The bytes of all outputs of one invocation."""

    __slots__ = ("_failure", "_progress", "limit", "total")

    def __init__(self, progress: Progress, failure: Failure) -> None:
        #: Of the sum; 0 is none.
        self.limit = 0
        self._progress = progress
        self._failure = failure
        self.total = 0

    def add(self, size: int) -> None:
        """Count ``size`` bytes of an output, and check them against limit and total deadline."""
        self._failure.raise_error()
        self.total += size
        if self.limit and self.total > self.limit:
            text = f"the storlet wrote more than the {self.limit} bytes allowed"
            raise Unprocessable(text, code=errors.LIMIT_OUTPUT)
        self._progress.begin_stage()
        self._progress.require_time()

    def begin_stage(self) -> None:
        """The receiver of an output has taken bytes: the storlet can write on."""
        self._progress.begin_stage()


def _available(fd: int) -> int:
    """The number of bytes that can be read from ``fd``."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])


def checked_metadata(metadata: Mapping[str, str], max_bytes: int) -> dict[str, str]:
    """Metadata of the output.

    Raises if it is invalid.  A sandbox is not trusted to have checked it.
    """
    checked = dict(metadata)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in checked.items())
    if size > max_bytes:
        text = f"the storlet's metadata is longer than {max_bytes} bytes"
        raise Unprocessable(text, code=errors.LIMIT_METADATA)
    for key, value in checked.items():
        if any(ord(char) < 32 or ord(char) == 127 for char in key + value):
            raise Unprocessable("the storlet's metadata has a control character")
        if not _METADATA_KEY.fullmatch(key):
            raise Unprocessable(
                f"the storlet's metadata has a key that no header can have: {key!r}"
            )
    return checked
