"""Printed text: into the invocation's log during a run, discarded otherwise."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

from storlet_daemon import author


class _LogBytes(io.RawIOBase):
    """Writes bytes into the invocation's log, or discards them if there is none."""

    def __init__(self, number: int) -> None:
        self.log: author.LogFile | None = None
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any, /) -> int:
        if self.log is not None:
            self.log.write(bytes(data))
        return len(data)


class Stdio:
    """``sys.stdout``, ``sys.stderr`` and descriptors 1 and 2."""

    def __init__(self) -> None:
        self._raw = (_LogBytes(1), _LogBytes(2))
        self._text = tuple(self._stream(raw) for raw in self._raw)
        self._has_log = False

    @staticmethod
    def _stream(raw: _LogBytes) -> io.TextIOWrapper:
        return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)  # type: ignore[arg-type]

    def install(self) -> None:
        """Replace Python's own streams for good, after flushing them."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._text

    @staticmethod
    def discard() -> None:
        """Discard what is written to descriptors 1 and 2; descriptor 0 is /dev/null."""
        os.dup2(0, 1)
        os.dup2(0, 2)

    def begin(self, log: author.LogFile | None) -> None:
        """Begin a run: it and its child processes print into ``log``."""
        self._has_log = log is not None
        if log is not None:
            for raw in self._raw:
                raw.log = log
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)

    def end(self) -> None:
        """End a run: undo what the storlet did to the streams."""
        if any(map(_is_unusable, self._text)):
            self._raw = (_LogBytes(1), _LogBytes(2))
            self._text = tuple(self._stream(raw) for raw in self._raw)
        for stream in self._text:
            try:  # noqa: SIM105 - a context manager would be three calls, and the filter waits
                stream.flush()
            except Exception:  # noqa: BLE001, S110
                pass
        sys.stdout, sys.stderr = self._text
        if self._has_log:
            for raw in self._raw:
                raw.log = None
            try:  # noqa: SIM105 - as above
                self.discard()
            except OSError:
                pass


def _is_unusable(stream: io.TextIOWrapper) -> bool:
    """True if a storlet has closed ``stream``, or has detached its buffer."""
    try:
        return stream.closed
    except ValueError:
        return True
