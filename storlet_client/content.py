"""The content of a file for an upload: in memory if it is short, and else read as it is sent."""

from __future__ import annotations

import hashlib
import io
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Union

from storlet_client.errors import ConfigurationError

#: Bytes of a content that is kept in memory.
SMALL_BYTES = 16 << 20
#: Bytes that are read at once; a transport sends such parts.
_PART_BYTES = 1 << 18


class FileContent:
    """The content of a regular file; it can be sent several times.

    It is read once at first: Swift compares what it receives with the hash.

    :ivar size: bytes in all.
    :ivar md5: hexadecimal hash.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        digest = hashlib.md5()  # noqa: S324 - Swift compares it with what it received
        for part in self._parts():
            digest.update(part)
            self.size += len(part)
        self.md5 = digest.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        """The parts.

        :raises ConfigurationError: the file has another size than at first.
        """
        left = self.size
        for part in self._parts():
            left -= len(part)
            if left < 0:
                break
            yield part
        if left:
            raise ConfigurationError([f"{self.path} has changed while it was sent: repeat that"])

    def _parts(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while True:
                part = file.read(_PART_BYTES)
                if not part:
                    return
                yield part


Content = Union[bytes, FileContent]


def content_of(path: Path) -> Content:
    """The content of a file or a pipe; that of a pipe is in memory."""
    with path.open("rb") as file:
        is_regular = stat.S_ISREG(path.stat().st_mode)
        first = file.read(SMALL_BYTES + 1)
        if len(first) <= SMALL_BYTES:
            return first
        if not is_regular:
            return first + file.read()
    return FileContent(path)


def opened(content: Content) -> BinaryIO:
    """A file with the content."""
    return io.BytesIO(content) if isinstance(content, bytes) else content.path.open("rb")


def md5_of(content: Content) -> str:
    """The hash of a content, hexadecimal."""
    if isinstance(content, FileContent):
        return content.md5
    return hashlib.md5(content).hexdigest()  # noqa: S324 - Swift compares it with what it received


def size_of(content: Content) -> int:
    """Its bytes in all."""
    return content.size if isinstance(content, FileContent) else len(content)
