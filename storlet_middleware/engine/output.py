"""The output of an invocation, and the check of the metadata of its output."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from collections.abc import Mapping
from typing import Final

from storlet_middleware import errors
from storlet_middleware.concurrency import forget
from storlet_middleware.errors import Unprocessable

CHUNK_BYTES: Final = 256 * 1024
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
