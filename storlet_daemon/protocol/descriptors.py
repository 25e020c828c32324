"""Ownership of descriptors: each has exactly one owner at every line.

A descriptor that came with a message, or that is meant to go with one, belongs to a
``Descriptors``. ``take`` passes the ownership of one to the caller, ``close`` closes all that are
left. Both may be called at any time and in any order. Nothing is ever closed twice, because the
kernel reuses the number of a closed descriptor at once.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self  # new in 3.11; the worker runs under older versions too


class Descriptors:
    """An ordered set of open descriptors, owned by this object; positions never change."""

    __slots__ = ("_fds",)

    def __init__(self, fds: Iterable[int] = ()) -> None:
        """Take ownership of ``fds``."""
        self._fds: list[int] = list(fds)

    def add(self, fd: int) -> int:
        """Take ownership of ``fd``; return its position."""
        self._fds.append(fd)
        return len(self._fds) - 1

    def take(self, position: int) -> int:
        """Pass the descriptor at ``position`` to the caller, which then owns it.

        Raises ``LookupError`` if it was taken or closed already.
        """
        fd = self._fds[position] if 0 <= position < len(self._fds) else -1
        if fd < 0:
            raise LookupError(f"no descriptor at position {position}")
        self._fds[position] = -1
        return fd

    def filenos(self) -> list[int]:
        """The descriptors still owned here, in order; ownership does not change."""
        return [fd for fd in self._fds if fd >= 0]

    def close(self) -> None:
        """Close all descriptors still owned here."""
        fds, self._fds = self._fds, [-1] * len(self._fds)
        for fd in fds:
            if fd >= 0:
                close_quietly(fd)

    def __len__(self) -> int:
        """The number of positions, including those whose descriptor was taken."""
        return len(self._fds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def sealed_memory(name: str, size: int) -> int:
    """A memory file of fixed ``size``, sealed against growing, shrinking and further seals.

    Its file offset, which all duplicates share, gives the number of bytes written, even after the
    writer was killed.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(fd)
        raise
    return fd


def close_quietly(fd: int) -> None:
    """Close ``fd`` and ignore errors: it may be closed already, or its last write may fail."""
    try:  # noqa: SIM105 - a context manager would cost as much as the system call
        os.close(fd)
    except OSError:
        pass
