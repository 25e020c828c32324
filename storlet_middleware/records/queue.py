"""Records that wait to be written, of all accounts of a process.

The bound of an account makes a tenant that floods lose its own records only.  When the bound of
the process is reached as well, the account with the longest queue loses.
"""

from __future__ import annotations

from storlet_middleware.concurrency import monotonic
from storlet_middleware.records.record import Record
from storlet_middleware.wsgi.swift_paths import AccountPath

#: Memory of the waiting records of an account, and of all: some 2,500 records without texts.
ACCOUNT_BYTES = 4 << 20
PROCESS_BYTES = 64 << 20


class _Waiting:
    """The records of one account."""

    __slots__ = ("bytes", "records", "since")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.bytes = 0
        self.since = monotonic()


class RecordQueue:
    """See the module; ``len`` is the number of accounts with waiting records."""

    def __init__(
        self, account_bytes: int = ACCOUNT_BYTES, process_bytes: int = PROCESS_BYTES
    ) -> None:
        self._account_bytes = account_bytes
        self._process_bytes = process_bytes
        self._waiting: dict[AccountPath, _Waiting] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def account_paths(self) -> list[AccountPath]:
        """The accounts with waiting records."""
        return list(self._waiting)

    def since(self, account_path: AccountPath) -> float:
        """When the first waiting record of an account was queued."""
        return self._waiting[account_path].since

    def add(self, account_path: AccountPath, record: Record) -> AccountPath | None:
        """Queue ``record``; return the account that loses a record because a bound is reached."""
        waiting = self._waiting.get(account_path)
        size = record.size_bytes
        if waiting is not None and waiting.bytes + size > self._account_bytes:
            return account_path
        loser = None
        if self._bytes + size > self._process_bytes:
            loser = max(self._waiting, key=lambda each: self._waiting[each].bytes)
            if loser == account_path:
                return loser
            self._drop_last(loser)
        if waiting is None:
            waiting = self._waiting[account_path] = _Waiting()
        waiting.records.append(record)
        waiting.bytes += size
        self._bytes += size
        return loser

    def take(self, account_path: AccountPath) -> list[Record]:
        """Remove and return the waiting records of an account, oldest first."""
        waiting = self._waiting.pop(account_path)
        self._bytes -= waiting.bytes
        return waiting.records

    def _drop_last(self, account_path: AccountPath) -> None:
        waiting = self._waiting[account_path]
        size = waiting.records.pop().size_bytes
        waiting.bytes -= size
        self._bytes -= size
        if not waiting.records:
            del self._waiting[account_path]
