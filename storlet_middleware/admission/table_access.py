"""Access of one process to the shared table: opened at the first use, after a fork, and when it is
replaced.

A process without a usable table admits by its own counts alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from storlet_middleware.admission.shared_table import Table, TableFault

_REOPEN_SECONDS: Final = 1.0
_WARNING_SECONDS: Final = 60.0
#: After this time without the table's lock its holder counts as stopped.
_LOCKED_OUT_SECONDS: Final = 1.0


class TableAccess:
    """Owner of the mapped table."""

    def __init__(self, path: Path, logger: Any) -> None:
        self._path = path
        self._logger = logger
        self.table: Table | None = None
        #: The process that has opened the table.
        self.pid = 0
        self.next_check = 0.0
        self._next_warning = 0.0
        self._locked_out_since = 0.0
        #: The last time without the lock; 0 after one with it.
        self.locked_out_at = 0.0

    def begin_process(self) -> None:
        """After a fork: leave the region of the table to the parent."""
        if self.table is not None:
            self.table.abandon()
        self.table, self.pid, self.next_check = None, os.getpid(), 0.0

    def refresh(self, now: float) -> bool:
        """At ``next_check``: open the table if it is closed or was replaced; True if opened."""
        self.next_check = now + _REOPEN_SECONDS
        if self.table is not None and self.table.is_current():
            return False
        try:
            table = Table.claim(self._path)
        except (OSError, TableFault) as error:
            if self.table is None:
                self._warn(now, str(error))
            return False
        if self.table is not None:
            self.table.close()
        self.table = table
        return True

    def is_locked_out(self, now: float) -> bool:
        """Whether the lock was unavailable for so long that its holder counts as stopped.

        A holder that gives it back in between is busy, and not stopped.
        """
        if now - self.locked_out_at > _LOCKED_OUT_SECONDS:
            self._locked_out_since = now
        self.locked_out_at = now
        if now - self._locked_out_since < _LOCKED_OUT_SECONDS:
            return False
        self._warn(now, f"{self._path} is locked by a process that is stopped")
        return True

    def _warn(self, now: float, why: str) -> None:
        if now >= self._next_warning:
            self._next_warning = now + _WARNING_SECONDS
            self._logger.warning("admission: this process counts for itself, because %s", why)
