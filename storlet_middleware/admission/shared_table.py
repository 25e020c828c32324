"""The shared file in which the Swift processes of a node publish their counts:
``<run_dir>/admission``.

sandboxd makes the file (:func:`create`); every process maps it.  No daemon takes part in reading or
writing it, so admission costs microseconds and works while sandboxd is restarted.

::

    header    4096 bytes    magic with the version of this format; number of regions ever claimed
    region    one process   pid, number of rows, change counter, time of its last poll; its rows

*Ownership.*  A process owns a region as long as it holds the OFD lock on the region's byte.  The
kernel releases the lock when the process ends, for any reason and in any pid namespace.  A
test of the lock therefore shows whether a process is alive; pids are never compared.  Only its
owner writes to a region, except that any process may empty the region of a dead one.

*The lock of the table* (an OFD lock on another byte) makes "count, decide, write" one critical
section.  It is held for microseconds, never across a switch of green threads, and waiting for it is
bounded by a few milliseconds: a holder that a debugger has stopped must not stop every server of
the node.  Numbers that only decrease (the end of a run) are written without the lock, as single
aligned words: a reader sees the old or the new value.

A process that forks leaves its region to the parent: see :meth:`Table.abandon`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storlet_middleware.admission.fairness import Row

FILE_NAME: Final = "admission"
#: Maximum of processes of a node; with ``servers_per_port`` there may be hundreds.
REGIONS: Final = 512
#: Maximum of worker groups with invocations in one process.
ROWS: Final = 512

_MAGIC: Final = b"STADMIT1"
_HEADER_BYTES: Final = 4096
_ROW: Final = struct.Struct("=16s16sIIdQddd")
_REGION_HEADER: Final = struct.Struct("=QIIQd")
_REGION_HEADER_BYTES: Final = 64
_REGION_BYTES: Final = _REGION_HEADER_BYTES + ROWS * _ROW.size
SIZE: Final = _HEADER_BYTES + REGIONS * _REGION_BYTES
#: Offsets of words of 4 and 8 bytes that are written or read alone.
_CLAIMED_AT: Final = 8
_USED_AT: Final = 8
_CHANGES_AT: Final = 16
_POLLED_AT: Final = 24
_RUNNING_AT: Final = 32
_WAITING_AT: Final = 36
_OLDEST_AT: Final = 40
_BEGAN_AT: Final = 64
_MEAN_AT: Final = 72
#: Locks are on bytes far behind the data.
_TABLE_LOCK: Final = 1 << 40
_FIRST_REGION_LOCK: Final = _TABLE_LOCK + 1
_FLOCK: Final = struct.Struct("hhqqi4x")
_LOCK_SECONDS: Final = 0.005
#: An operator's command waits longer for the lock than a request does.
_SNAPSHOT_SECONDS: Final = 1.0
#: Waiters of a process that has not polled for this time block no others.
_ABSENT_SECONDS: Final = 0.25
_FILE_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Usage(NamedTuple):
    """A tenant's invocations on a node."""

    running: int
    waiting: int


class TableFault(Exception):
    """The file cannot be used; the text contains the reason."""


def create(path: Path, gid: int) -> None:
    """Make the file for the members of ``gid``, unless it is there and right; raises ``OSError``.

    A file of another format is replaced; processes that map it detect that
    (:meth:`Table.is_current`).
    """
    with contextlib.suppress(OSError, TableFault):
        descriptor = _open(path)
        try:
            _set_access(descriptor, gid)
        finally:
            os.close(descriptor)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, _FILE_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # A sparse file: only used regions take memory.
        os.ftruncate(descriptor, SIZE)
        os.pwrite(descriptor, _MAGIC, 0)
        _set_access(descriptor, gid)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _set_access(descriptor: int, gid: int) -> None:
    status = os.fstat(descriptor)
    if status.st_gid != gid:
        os.fchown(descriptor, -1, gid)
    if stat.S_IMODE(status.st_mode) != 0o660:
        os.fchmod(descriptor, 0o660)


def _open(path: Path) -> int:
    """A descriptor of a table in this format; raises ``OSError`` or :class:`TableFault`."""
    descriptor = os.open(path, _FILE_FLAGS)
    status = os.fstat(descriptor)
    is_right = stat.S_ISREG(status.st_mode) and status.st_size == SIZE
    if is_right and os.pread(descriptor, len(_MAGIC), 0) == _MAGIC:
        return descriptor
    os.close(descriptor)
    raise TableFault(f"{path}: no admission table of this version")


class Table:
    """A process's view of the file and its own region in it.

    Raises ``OSError`` or :class:`TableFault`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _open(path)
        self._region = -1
        #: Where the own region begins, once there is one.
        self._own = 0
        try:
            status = os.fstat(self._descriptor)
            self._identity = (status.st_dev, status.st_ino)
            self._map = mmap.mmap(self._descriptor, SIZE)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._bytes = memoryview(self._map)
        self._words, self._longs = self._bytes.cast("I"), self._bytes.cast("Q")
        self._doubles = self._bytes.cast("d")

    @classmethod
    def claim(cls, path: Path) -> Table:
        """The table, with a region of it for this process."""
        table = cls(path)
        try:
            table._claim_region()
        except BaseException:
            table.abandon()
            raise
        return table

    def _claim_region(self) -> None:
        region = next((index for index in range(REGIONS) if self._try_region(index)), -1)
        if region < 0:
            raise TableFault(f"{self._path}: all {REGIONS} regions are taken")
        base = self._base(region)
        # Writing to a hole of a mapped file raises SIGBUS when the file system is full.
        os.posix_fallocate(self._descriptor, base, _REGION_BYTES)
        _REGION_HEADER.pack_into(self._bytes, base, os.getpid(), 0, 0, 0, 0.0)
        if not self.lock():
            raise TableFault(f"{self._path}: locked")
        self._words[_CLAIMED_AT // 4] = max(self._claimed(), region + 1)
        self.unlock()
        self._region, self._own = region, base

    def _try_region(self, index: int) -> bool:
        return _try_lock(self._descriptor, _flock(fcntl.F_WRLCK, _FIRST_REGION_LOCK + index))

    def is_current(self) -> bool:
        """Whether the path still leads to the file that is mapped here."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        """Give the region back."""
        if self._region >= 0:
            self._words[(self._own + _USED_AT) // 4] = 0
        self.abandon()

    def abandon(self) -> None:
        """Unmap without giving the region back: after a fork the parent owns it and its lock."""
        for view in (self._words, self._longs, self._doubles, self._bytes):
            view.release()
        self._map.close()
        os.close(self._descriptor)

    # --- the lock ---------------------------------------------------------------------------------

    def lock(self) -> bool:
        """Acquire the lock of the table; False if it is not available soon.

        No green thread may be switched to until :meth:`unlock`.
        """
        if _try_lock(self._descriptor, _LOCK):
            return True
        give_up = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < give_up:
            # The holder may have been preempted.
            os.sched_yield()
            if _try_lock(self._descriptor, _LOCK):
                return True
        return False

    def unlock(self) -> None:
        """Release the lock of the table."""
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _UNLOCK)

    # --- this process's rows ----------------------------------------------------------------------

    def write(self, index: int, row: Row) -> None:
        """Publish a row; the lock is held."""
        base = self._own
        _ROW.pack_into(self._bytes, base + _REGION_HEADER_BYTES + index * _ROW.size, *row)
        used = (base + _USED_AT) // 4
        if self._words[used] <= index:
            self._words[used] = index + 1
        self._longs[(base + _CHANGES_AT) // 8] += 1

    def lower(self, index: int, row: Row) -> None:
        """Publish lower counts; needs no lock, because that only adds capacity for others."""
        base = self._own
        at = base + _REGION_HEADER_BYTES + index * _ROW.size
        self._words[(at + _RUNNING_AT) // 4] = row.running
        self._words[(at + _WAITING_AT) // 4] = row.waiting
        self._doubles[(at + _OLDEST_AT) // 8] = row.oldest
        self._doubles[(at + _BEGAN_AT) // 8] = row.began
        self._doubles[(at + _MEAN_AT) // 8] = row.mean
        self._longs[(base + _CHANGES_AT) // 8] += 1

    def is_last(self, index: int) -> bool:
        """Whether no row behind ``index`` is published."""
        return self._words[(self._own + _USED_AT) // 4] == index + 1

    def keep(self, count: int) -> None:
        """Publish the first ``count`` rows only."""
        self._words[(self._own + _USED_AT) // 4] = count

    def take_part(self, now: float) -> None:
        """Publish that this process polls for its waiters."""
        self._doubles[(self._own + _POLLED_AT) // 8] = now

    # --- rows of other processes ------------------------------------------------------------------

    def changes(self) -> int:
        """A number that changes with every change of the table."""
        step, first = _REGION_BYTES // 8, (_HEADER_BYTES + _CHANGES_AT) // 8
        return sum(self._longs[first : first + self._claimed() * step : step])

    def others(self, now: float) -> Iterator[tuple[bool, Iterator[Row]]]:
        """For each other process: whether it polls for its waiters, and its rows.

        The lock is held.
        """
        step, first = _REGION_BYTES // 4, (_HEADER_BYTES + _USED_AT) // 4
        for index, used in enumerate(self._words[first : first + self._claimed() * step : step]):
            if used and index != self._region:
                polled_at = (self._base(index) + _POLLED_AT) // 8
                yield self._doubles[polled_at] > now - _ABSENT_SECONDS, self._rows(index)

    def forget_dead(self) -> bool:
        """Empty the regions of dead processes; True if there were any.  The lock is held."""
        has_found = False
        for index in range(self._claimed()):
            used = (self._base(index) + _USED_AT) // 4
            if (
                index != self._region
                and self._words[used]
                and not _is_locked(self._descriptor, index)
            ):
                self._words[used] = 0
                self._longs[(self._base(index) + _CHANGES_AT) // 8] += 1
                has_found = True
        return has_found

    def usage(self) -> dict[str, Usage]:
        """The usage of each tenant, over all live processes; the lock is held.

        Without the lock a row can be half written, and an invocation can be counted twice.
        """
        total: dict[str, Usage] = {}
        for index in range(self._claimed()):
            if index == self._region or _is_locked(self._descriptor, index):
                for row in self._rows(index):
                    if row[2] or row[3]:
                        before = total.get(row[0].hex(), Usage(0, 0))
                        total[row[0].hex()] = Usage(
                            before.running + row[2], before.waiting + row[3]
                        )
        return total

    def _rows(self, region: int) -> Iterator[Row]:
        """A process's rows, as plain tuples."""
        base = self._base(region)
        used = min(self._words[(base + _USED_AT) // 4], ROWS)
        first = base + _REGION_HEADER_BYTES
        rows = self._bytes[first : first + used * _ROW.size]
        return _ROW.iter_unpack(rows)  # type: ignore[return-value]

    def _claimed(self) -> int:
        return min(self._words[_CLAIMED_AT // 4], REGIONS)

    def _base(self, region: int) -> int:
        return _HEADER_BYTES + region * _REGION_BYTES


def snapshot(run_dir: str | Path) -> dict[str, Usage]:
    """Running and waiting invocations of the node, by tenant key; empty without a table.

    For operators.  It holds the table's lock while it reads; if a stopped process holds that for
    longer than a second, it reads without.  Raises ``OSError`` or :class:`TableFault`.
    """
    try:
        table = Table(Path(run_dir) / FILE_NAME)
    except FileNotFoundError:
        return {}
    try:
        give_up = time.monotonic() + _SNAPSHOT_SECONDS
        while not table.lock() and time.monotonic() < give_up:
            pass  # lock() itself waits for some milliseconds
        return table.usage()
    finally:
        table.abandon()  # closes the descriptor, and releases the lock with it


def _flock(kind: int, byte: int) -> bytes:
    """A lock of one byte, for the kernel."""
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


_LOCK: Final = _flock(fcntl.F_WRLCK, _TABLE_LOCK)
_UNLOCK: Final = _flock(fcntl.F_UNLCK, _TABLE_LOCK)


def _try_lock(descriptor: int, lock: bytes) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _is_locked(descriptor: int, region: int) -> bool:
    """Whether another open file holds the lock of a region."""
    asked = _flock(fcntl.F_WRLCK, _FIRST_REGION_LOCK + region)
    kind = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
    return bool(kind != fcntl.F_UNLCK)
