"""One owner for each descriptor, at every line.

A descriptor that came with a message, or that is meant to go with one, belongs to a ``Descriptors``. It ends in one of
two ways: ``take`` hands one of them to a new owner, ``close`` ends all that are left. Both may be called at any time and
in any order; nothing is ever closed twice, which matters because the number of a closed descriptor is given out again at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self  # new in 3.11; the worker runs under older versions too


class Descriptors:
    """An ordered set of open descriptors with one owner, this object; positions stay when one is taken."""

    __slots__ = ("_fds",)

    def __init__(self, fds: Iterable[int] = ()) -> None:
        """Become the owner of ``fds``."""
        self._fds: list[int] = list(fds)

    def add(self, fd: int) -> int:
        """Become the owner of ``fd`` too, and say at which position it is."""
        self._fds.append(fd)
        return len(self._fds) - 1

    def take(self, position: int) -> int:
        """Hand the descriptor at ``position`` to the caller, who must close it. ``LookupError`` when it is gone."""
        fd = self._fds[position] if 0 <= position < len(self._fds) else -1
        if fd < 0:
            raise LookupError(f"no descriptor at position {position}")
        self._fds[position] = -1
        return fd

    def filenos(self) -> list[int]:
        """The descriptors that are still owned here, in order; they stay owned here."""
        return [fd for fd in self._fds if fd >= 0]

    def close(self) -> None:
        """Close what is still owned here."""
        fds, self._fds = self._fds, [-1] * len(self._fds)
        for fd in fds:
            if fd >= 0:
                close_quietly(fd)

    def __len__(self) -> int:
        """How many positions there are, taken ones included."""
        return len(self._fds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def sealed_memory(name: str, size: int) -> int:
    """Memory of fixed ``size`` as a file that its holder may fill and nobody can enlarge, shrink or seal otherwise.

    Its position, which all duplicates share, says how much was written, also after a kill.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def close_quietly(fd: int) -> None:
    """Close ``fd``; that it was closed already, or that its last write failed, is nobody's business here."""
    with contextlib.suppress(OSError):
        os.close(fd)
