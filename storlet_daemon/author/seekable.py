"""Inputs in which a storlet can seek.

A storlet that declares ``X-Object-Meta-Storlet-Input: seekable`` gets them, and libraries that need
random access take them as binary files::

    class Names:
        def __init__(self, logger):
            self.logger = logger

        def __call__(self, in_files, out_files, params):
            with zipfile.ZipFile(in_files[0]) as archive:
                out_files[0].write("\\n".join(archive.namelist()).encode())

On the object node the input is the object's own file.  Elsewhere it reads ranges of the object
through the filter, up to 1 MiB at a time, and reads ahead the more, the longer it is read in order.
An object that is replaced meanwhile ends the run.
"""

from __future__ import annotations

import errno
import io
import os
import struct
from collections.abc import Mapping
from typing import Any

from . import StorletInputFile

BUFFER_BYTES = 64 * 1024
"""Bytes of a read for a smaller one; also the first read-ahead after a seek."""
READ_BYTES_MAX = 1024 * 1024
"""Bytes of the longest read (``PROTOCOL.rst``, section 2.2)."""
_REQUEST = struct.Struct(">QQ")


class StorletSeekableInputFile(StorletInputFile):
    """An input that can seek: a binary file of ``size`` bytes, with metadata."""

    _buffer_bytes = BUFFER_BYTES
    _file: _CountedFile | _RemoteFile

    def __init__(self, metadata: Mapping[str, str], fd: int, size: int) -> None:
        """Take ownership of ``fd``."""
        self._size = size
        super().__init__(metadata, fd)

    @property
    def size(self) -> int:
        """Bytes of the input."""
        return self._size

    @property
    def bytes_read(self) -> int:
        """Bytes that were read so far, with those that were read ahead."""
        return self._file.taken

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:  # type: ignore[override]
        """Move to a position, also beyond the end, where reads give nothing; return it."""
        return io.BufferedReader.seek(self, offset, whence)


class SeekableFile(StorletSeekableInputFile):
    """The object's own file.

    Raises ``OSError`` if the descriptor cannot seek; then the caller still owns it.
    """

    def __init__(self, metadata: Mapping[str, str], fd: int, size: int) -> None:
        """Take ownership of ``fd``."""
        os.lseek(fd, 0, os.SEEK_SET)
        super().__init__(metadata, fd, size)

    def _raw(self, fd: int) -> io.RawIOBase:
        return _CountedFile(fd)


class SeekableReads(StorletSeekableInputFile):
    """An object elsewhere: the filter answers reads on the socket ``fd``."""

    def _raw(self, fd: int) -> io.RawIOBase:
        return _RemoteFile(fd, self._size)


class _CountedFile(io.FileIO):
    """A file that counts the bytes that are read from it."""

    taken = 0

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer) or 0
        self.taken += count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return self.readall()
        data = super().read(size) or b""
        self.taken += len(data)
        return data

    def readall(self) -> bytes:
        # FileIO's own method reads without this class.
        parts = []
        while part := self.read(READ_BYTES_MAX):
            parts.append(part)
        return b"".join(parts)


class _RemoteFile(io.RawIOBase):
    """Reads ranges through a socket, one after the other, and keeps the last one."""

    def __init__(self, fd: int, size: int) -> None:
        super().__init__()
        self._socket = io.FileIO(fd, "r+")
        self._size = size
        self._position = 0
        #: The last range, and where it begins.
        self._window = memoryview(b"")
        self._start = 0
        self._ahead = BUFFER_BYTES
        self.taken = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}.get(whence)
        if base is None or base + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._position)
        if wanted <= 0:
            return 0
        if not self._start <= self._position < self._start + len(self._window):
            self._fetch(wanted)
        begin = self._position - self._start
        part = self._window[begin : begin + wanted]
        view[: len(part)] = part
        self._position += len(part)
        return len(part)

    def _fetch(self, wanted: int) -> None:
        """Read the range that begins at the position; a reader that continues gets more."""
        skipped = self._position - (self._start + len(self._window))
        if not 0 <= skipped <= BUFFER_BYTES:
            self._ahead = BUFFER_BYTES
        length = min(max(wanted, self._ahead), READ_BYTES_MAX, self._size - self._position)
        self._ahead = min(2 * self._ahead, READ_BYTES_MAX)
        self._window, self._start = memoryview(b""), self._position
        self._socket.write(_REQUEST.pack(self._position, length))
        window, filled = memoryview(bytearray(length)), 0
        while filled < length:
            count = self._socket.readinto(window[filled:])
            if not count:
                raise OSError(errno.EIO, "the input broke off: the run is being ended")
            filled += count
        self.taken += length
        self._window = window

    def close(self) -> None:
        self._window = memoryview(b"")
        self._socket.close()
        super().close()
