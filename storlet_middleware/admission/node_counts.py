"""The running and waiting invocations of a node: those of this process, and the published ones.

A decision is made over both, under the lock of the table (:meth:`NodeCounts.decide`).

*Without the table* (sandboxd has never run, the file is damaged, no region is free) each process
counts for itself: the load stays bounded, only higher.  Refusing clients would be worse, because
nothing else is wrong; and without any bound a broken file could take the node down.  The log has a
warning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.fairness import Capacity, Load
from storlet_middleware.admission.groups import Group, Groups
from storlet_middleware.admission.shared_table import Table
from storlet_middleware.admission.table_access import TableAccess
from storlet_middleware.config import Config
from storlet_middleware.node_memory import host_memory, memory_total

#: Default of invocations for each CPU: storlets wait for input and output most of their time.
_PER_CPU: Final = 32

_Subject = TypeVar("_Subject")
_Result = TypeVar("_Result")


class NodeCounts:
    """One per server process, made before the server forks; the table is opened at the first use.

    :param room: maximum of invocations that run or wait in this process.
    """

    def __init__(self, config: Config, logger: Any, room: int) -> None:
        self._access = TableAccess(Path(config.sandbox.run_dir) / shared_table.FILE_NAME, logger)
        self._capacity = Capacity(
            config.admission.invocations or _PER_CPU * (os.cpu_count() or 1),
            memory_total(config.node, host_memory()),
        )
        self._room = room
        #: The invocations of this process.
        self.own = Groups(room)

    @property
    def table(self) -> Table | None:
        """The table of the last decision; ``None`` while this process counts for itself."""
        return self._access.table

    def has(self, group: Group) -> bool:
        """Whether ``group`` is counted here, and not by the parent of a fork."""
        return self._access.pid == os.getpid() and self.own.has(group)

    def idle(self) -> Load:
        """The load of a node without invocations."""
        return Load(self._capacity)

    def load(self, table: Table | None, now: float) -> Load:
        """The load of the node."""
        load = Load(self._capacity)
        if self.own.by_key:
            self.own.add_to(load)
        if table is not None:
            for is_alive, rows in table.others(now):
                load.count(rows, take_turns=is_alive)
        return load

    def decide(
        self,
        attempt: Callable[[Table | None, _Subject, float], _Result | None],
        subject: _Subject,
        now: float,
    ) -> _Result | None:
        """The result of ``attempt`` under the table's lock.

        ``None`` while the lock is not available.
        """
        table = self._current_table(now)
        if table is None:
            return attempt(None, subject, now)
        if not table.lock():
            return attempt(None, subject, now) if self._access.is_locked_out(now) else None
        self._access.locked_out_at = 0.0
        try:
            return attempt(table, subject, now)
        finally:
            table.unlock()

    @contextmanager
    def locked_if_free(self) -> Iterator[Table | None]:
        """The table for the length of a block, without its lock if that is not free."""
        table = self.table
        is_locked = table is not None and table.lock()
        try:
            yield table
        finally:
            if table is not None and is_locked:
                table.unlock()

    def _current_table(self, now: float) -> Table | None:
        """The table; after a fork this process begins without invocations."""
        access = self._access
        if access.pid != os.getpid():
            access.begin_process()
            self.own = Groups(self._room)
        if now >= access.next_check and access.refresh(now):
            self.own.publish_in(access.table)
        return access.table
