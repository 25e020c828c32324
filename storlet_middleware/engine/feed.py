"""Copies a source (a request body, an assembled object) into a stream that a storlet reads.

A source that breaks off must not look like its end: the storlet would see end of file and succeed,
and its truncated result would look complete.  So a broken source first cancels the invocation and
then closes the stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from storlet_middleware import errors
from storlet_middleware.concurrency import (
    GreenTask,
    Killed,
    Timeout,
    end,
    forget,
    monotonic,
    spawn,
    wait_task,
    write_all,
)
from storlet_middleware.errors import Unprocessable

#: A read of a source that is not stalled takes far less.
_LAST_READ_SECONDS: Final = 1.0


class Source(Protocol):
    """An iterable of bytes; iteration raises if the bytes are incomplete."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Called before a read in progress is killed and its bytes are lost.

        :meth:`close` follows.
        """


class Feeder:
    """Owns a stream's writing end and a source from construction until it ended or was stopped.

    :param on_failure: called with the exception of a broken source, before the stream is closed.
    :param drains: read the source to its end even when the storlet stops reading, so that the
        sender's checks (length, hash) happen and its connection stays usable.
    :param is_ours: no connection of a client or a server depends on the source, so a read of it may
        be interrupted.
    :param release: takes the writing end in the end, instead of closing it.
    """

    def __init__(
        self,
        source: Source,
        fd: int,
        on_failure: Callable[[BaseException], None],
        *,
        drains: bool = False,
        is_ours: bool = False,
        release: Callable[[int], None] = os.close,
    ) -> None:
        self._source = source
        self._fd = fd
        self._release = release
        self._on_failure = on_failure
        self.drains = drains
        self._is_ours = is_ours
        self._is_wanted = True
        self._is_stopping = False
        self._is_closed = False
        self.bytes_taken = 0
        self.waits_for_source = False
        self.last_progress = monotonic()
        self._task: GreenTask = spawn(self._run)

    @property
    def is_over(self) -> bool:
        return bool(self._task.dead)

    def wait(self) -> None:
        """Return when the source was read to its end, or as far as the storlet read it."""
        self._task.wait()

    def stop(self) -> None:
        """Drop the rest of the source and close it.

        A source that is drained is a connection that is used afterwards, unless it is ours: its
        last read may end by itself.
        """
        self._is_stopping = True
        try:
            if not self._task.dead and self.drains and not self._is_ours:
                self._await_last_read()
        finally:
            if not self._task.dead:
                end(self._task)
            # A task killed before its first step never runs its own clean-up.
            if not self._is_closed:
                self._close()

    def _await_last_read(self) -> None:
        """Wait for the end of a read in progress; abandon the source if it takes too long, or this
        task is interrupted.
        """
        has_ended = False
        try:
            has_ended = wait_task(self._task, _LAST_READ_SECONDS)
        finally:
            if not has_ended:
                self._source.abandon()

    def _run(self) -> None:
        try:
            chunks = iter(self._source)
            while True:
                self.waits_for_source = True
                chunk = next(chunks, None)
                self.waits_for_source = False
                self.last_progress = monotonic()
                if chunk is None or self._is_stopping:
                    break
                if self._is_wanted:
                    self._write(chunk)
                if not self._is_wanted and not self.drains:
                    break
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            self._on_failure(error if self.waits_for_source else _blame_storlet(error))
        finally:
            self._close()

    def _write(self, chunk: bytes) -> None:
        try:
            write_all(self._fd, chunk, self._note_written)
        except (BrokenPipeError, ConnectionResetError):
            self._is_wanted = False
            self._close_stream()

    def _note_written(self, count: int) -> None:
        self.bytes_taken += count
        self.last_progress = monotonic()

    def _close_stream(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            forget(fd)
            self._release(fd)

    def _close(self) -> None:
        self._close_stream()
        self._source.close()
        self._is_closed = True


def _blame_storlet(error: BaseException) -> BaseException:
    """Swift's timeout for the reader of a body: then the storlet stalled, and not the source."""
    if isinstance(error, Timeout):
        return Unprocessable(f"the storlet took no more input: {error}", code=errors.TIMEOUT_IDLE)
    return error
