"""The author's interface of a Python storlet: inputs, an output, a logger.

Nothing else of this package is meant for authors.  This folder needs the standard library only, and
works from Python 3.9 on: ``storlet test`` of the client runs storlets with it.

``failure_text``     the summary and the traceback of a failed run
``offer``            the package ``storlet``, from which authors import services and secrets
``output_metadata``  metadata that no output can have
``seekable``         inputs in which a storlet can seek
``services``         the store, as a running storlet may use it
``account_secrets``  secrets of the account: ``storlet.secrets`` for authors
``calls``            calls of other storlets: the request, its input, and the result

::

    class Upper:
        def __init__(self, logger):
            self.logger = logger

        def __call__(self, in_files, out_files, params):
            source, target = in_files[0], out_files[0]
            target.set_metadata(source.get_metadata())
            for line in source:
                target.write(line.upper())

Modules written for OpenStack Storlets run unchanged. In addition, iteration gives lines, there are
``readinto``, ``read1`` and ``peek``, and a storlet that writes without ``set_metadata`` has empty
metadata.

Inputs and outputs are Python's own buffered files, so their work is done in C, and ``csv``,
``gzip`` and similar modules accept them. For text use ``codecs.getreader("utf-8")(in_files[0])``.
"""

from __future__ import annotations

import io
import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from typing import Self  # new in 3.11; the worker runs under older versions too

READ_BYTES = 256 * 1024
"""Read-ahead of an input: the fastest of those measured."""
WRITE_BYTES = 64 * 1024
"""Smaller writes are buffered up to this size; a larger one is written without a copy."""
FLUSH_SECONDS = 0.1
"""A write later than this after the last flush is flushed at once, so slow output arrives."""


class MetadataTooLargeError(OSError):
    """The metadata exceeds the sandbox's limit."""


def _unsupported(what: str) -> NoReturn:
    raise NotImplementedError(what)


class StorletInputFile(io.BufferedReader):
    """An input: bytes and metadata.

    Read it by ``read``, ``readline``, ``readlines``, ``readinto``, or line by line in a loop.
    """

    _buffer_bytes = READ_BYTES

    def __init__(self, metadata: Mapping[str, str], fd: int) -> None:
        """Take ownership of ``fd``."""
        # The storlet may detach the raw file; it is closed with this one all the same.
        self._file = self._raw(fd)
        super().__init__(self._file, self._buffer_bytes)
        self._metadata = dict(metadata)

    def _raw(self, fd: int) -> io.RawIOBase:
        return io.FileIO(fd)

    def get_metadata(self) -> dict[str, str]:
        """A copy of the input's metadata."""
        return dict(self._metadata)

    def next(self) -> bytes:
        """The next line, as iteration gives it."""
        return self.__next__()

    def seekable(self) -> bool:
        """False: the input is a stream, unless the storlet declares seekable inputs."""
        return False

    def close(self) -> None:
        """Close the input; idempotent. (The inherited method would call ``flush`` first.)"""
        self._file.close()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> NoReturn:
        """Not for a stream."""
        _unsupported("an input cannot seek: declare X-Object-Meta-Storlet-Input: seekable")

    def write(self, data: Any, /) -> NoReturn:
        """Not for an input."""
        _unsupported("an input cannot be written")

    def writelines(self, lines: Any, /) -> NoReturn:
        """Not for an input."""
        _unsupported("an input cannot be written")

    def flush(self) -> None:
        """Not for an input."""
        _unsupported(
            'an input cannot be flushed: for text, give codecs.getreader("utf-8")(in_files[0])'
            " to the library that reads it"
        )

    def set_metadata(self, metadata: Any) -> NoReturn:
        """Not for an input."""
        _unsupported("an input's metadata cannot be set")


class StorletRangeInputFile(StorletInputFile):
    """A range of a file as an input.

    From ``start`` to ``end``, both inclusive; without ``end`` to the end of the file.
    """

    def __init__(self, metadata: Mapping[str, str], fd: int, start: int, end: int | None) -> None:
        """Take ownership of ``fd``.

        Raises ``OSError`` if it cannot seek; then the caller still owns it.
        """
        os.lseek(fd, start, os.SEEK_SET)
        self._bytes = None if end is None else end - start + 1
        super().__init__(metadata, fd)

    def _raw(self, fd: int) -> io.RawIOBase:
        return io.FileIO(fd) if self._bytes is None else _BoundedFile(fd, self._bytes)


class _BoundedFile(io.FileIO):
    """A file that ends after ``count`` bytes, wherever it ends on disk."""

    def __init__(self, fd: int, count: int) -> None:
        super().__init__(fd)
        self._left = count

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")[: self._left]
        count = super().readinto(view) or 0
        self._left -= count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return self.readall()
        data = super().read(min(size, self._left)) or b""
        self._left -= len(data)
        return data

    def readall(self) -> bytes:
        parts = []
        while part := self.read(min(READ_BYTES, self._left)):
            parts.append(part)
        return b"".join(parts)


class StorletOutputFile(io.BufferedWriter):
    """The output: metadata first, at most once, then bytes."""

    def __init__(
        self,
        fd: int,
        metadata_max: int,
        send_metadata: Callable[[Mapping[str, str]], None],
        *,
        closefd: bool = True,
    ) -> None:
        """Take ownership of ``fd``; without ``closefd``, the caller keeps it and closes it later.

        ``metadata_max`` is in bytes of JSON. ``send_metadata`` sends the metadata to the filter; it
        is called once, before any byte is written.
        """
        # Kept because ``raw`` is None once a storlet has detached the output.
        self._file = io.FileIO(fd, "w", closefd=closefd)
        super().__init__(self._file, WRITE_BYTES)
        self._metadata_max = metadata_max
        self._send_metadata = send_metadata
        self._metadata: dict[str, Any] | None = None
        self._flush_at = 0.0

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set the metadata, before anything is written.

        Raises ``OSError`` if it was set or something was written already. Numbers and truth values
        become text; lists and dictionaries become JSON; a key whose value is None is left out.
        """
        if self._metadata is not None:
            raise OSError("Sending metadata twice is not allowed")
        texts = {
            str(key): _to_text(value) for key, value in dict(metadata).items() if value is not None
        }
        # Most metadata is empty, and needs no encoder.
        data = json.dumps(texts, ensure_ascii=False, separators=(",", ":")) if texts else "{}"
        size = len(data.encode("utf-8"))
        if size > self._metadata_max:
            raise MetadataTooLargeError(
                f"the metadata has {size} bytes, more than {self._metadata_max}"
            )
        self._send_metadata(texts)
        self._metadata = dict(metadata)

    def get_metadata(self) -> dict[str, Any]:
        """A copy of the metadata; ``OSError`` if it was not set."""
        if self._metadata is None:
            raise OSError("Metadata is not set yet")
        return dict(self._metadata)

    def _ensure_metadata(self) -> None:
        if self._metadata is None:
            self._send_metadata({})
            self._metadata = {}

    def write(self, data: Any, /) -> int:
        """Write bytes. If no metadata was set before, it is empty from now on."""
        if self._metadata is None:
            self._ensure_metadata()
        count = super().write(data)
        now = time.monotonic()
        if now >= self._flush_at:
            super().flush()
            self._flush_at = now + FLUSH_SECONDS
        return count

    def writelines(self, lines: Iterable[Any], /) -> None:
        """Write each item of ``lines`` without separators."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write all buffered bytes."""
        super().flush()

    def fileno(self) -> int:
        """The descriptor, for a child process to write to. Sends the metadata and flushes first."""
        if not self.closed:
            self._ensure_metadata()
            super().flush()
        return super().fileno()

    def close(self) -> None:
        """Close the output; idempotent. Metadata that was not set is empty."""
        if not self.closed:
            self._ensure_metadata()
        super().close()

    def abandon(self) -> None:
        """Close without flushing: the run has failed."""
        self._file.close()

    def seekable(self) -> bool:
        """Always False."""
        return False

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> NoReturn:
        """Not for a stream."""
        _unsupported("an output cannot seek")

    def read(self, size: int | None = -1, /) -> NoReturn:
        """Not for an output."""
        _unsupported("an output cannot be read")

    def readline(self, size: int | None = -1, /) -> NoReturn:
        """Not for an output."""
        _unsupported("an output cannot be read")

    def readlines(self, hint: int = -1, /) -> NoReturn:
        """Not for an output."""
        _unsupported("an output cannot be read")

    def __next__(self) -> NoReturn:
        """Not for an output."""
        _unsupported("an output cannot be read")


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        value.encode("utf-8")  # fails here, where its author sees it, on half of a surrogate pair
        return value
    if isinstance(value, (int, float)):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


class LogFile:
    """The invocation's log: a file of fixed size that is filled from its start.

    A full log, or one that cannot be written, raises nothing: a log must not fail a storlet. After
    the end of the invocation every use raises ``ValueError``: the number of its descriptor may be
    that of another file by then.
    """

    def __init__(self, fd: int, limit: int) -> None:
        """The caller keeps the ownership of ``fd``."""
        self._fd = fd
        self._limit = limit
        self._last_line = f"log truncated at {limit} bytes\n".encode()
        self._is_full = limit <= len(self._last_line)

    def fileno(self) -> int:
        """The file's descriptor."""
        self._require_invocation()
        return self._fd

    def end(self) -> None:
        """The invocation has ended."""
        self._fd = -1

    @property
    def has_ended(self) -> bool:
        """True after the end of the invocation."""
        return self._fd < 0

    def _require_invocation(self) -> None:
        if self._fd < 0:
            raise ValueError(
                "this logger's invocation has ended; use the logger of the current one"
            )

    def write(self, data: bytes) -> None:
        """Append ``data``; cut it at the limit, and note that in the last line."""
        self._require_invocation()
        if self._is_full:
            return
        try:
            # Read each time, because child processes write to the same file.
            room = self._limit - len(self._last_line) - 1 - os.lseek(self._fd, 0, os.SEEK_CUR)
            if len(data) <= room:
                os.write(self._fd, data)
            else:
                self._end(data[: max(room, 0)])
        except OSError:
            self._is_full = True

    def _end(self, data: bytes) -> None:
        self._is_full = True
        if data:
            os.write(self._fd, data)
        os.lseek(
            self._fd,
            min(os.lseek(self._fd, 0, os.SEEK_CUR), self._limit - len(self._last_line) - 1),
            os.SEEK_SET,
        )
        os.write(self._fd, b"\n" + self._last_line)


class StorletLogger:
    """Lines for the invocation's log: ``<Main> LEVEL: message``.

    They are discarded if the request did not request a log.
    """

    def __init__(self, storlet_name: str, log: LogFile | None) -> None:
        """Each line begins with ``storlet_name``."""
        self.storlet_name = storlet_name
        self._log = log

    def debug(self, msg: object, *args: object) -> None:
        """Add a line of level DEBUG; ``args`` go into ``msg`` as with the ``logging`` module."""
        self._add("DEBUG", msg, args)

    def info(self, msg: object, *args: object) -> None:
        """Add a line of level INFO."""
        self._add("INFO", msg, args)

    def warn(self, msg: object, *args: object) -> None:
        """Add a line of level WARN."""
        self._add("WARN", msg, args)

    warning = warn

    def error(self, msg: object, *args: object) -> None:
        """Add a line of level ERROR."""
        self._add("ERROR", msg, args)

    def exception(self, msg: object, *args: object) -> None:
        """Add a line of level ERROR, with the traceback of the current exception."""
        self._add("ERROR", f"{_formatted(msg, args)}\n{traceback.format_exc().rstrip()}", ())

    @property
    def closed(self) -> bool:
        """True if lines are not taken any more."""
        return self._log is None or self._log.has_ended

    def close(self) -> None:
        """Discard all further lines."""
        self._log = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _add(self, level: str, msg: object, args: tuple[object, ...]) -> None:
        if self._log is not None:
            line = f"{self.storlet_name} {level}: {_formatted(msg, args)}\n"
            self._log.write(line.encode("utf-8", "backslashreplace"))


def _formatted(msg: object, args: tuple[object, ...]) -> str:
    text = str(msg)
    if not args:
        return text
    try:
        return text % args
    except (TypeError, ValueError):
        return f"{text} {args}"
