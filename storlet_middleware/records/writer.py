"""Writes the queued records of a process, in one green task that runs while there are any.

The records of an account are written together, one object per :data:`INTERVAL_SECONDS`.  While it
has few, each is written within a fraction of a second, because its reader may be waiting:
:data:`EARLY` objects may be written earlier, and each interval without a write gives one back.  So
a record is written at most an interval after its run, and the time of one PUT.  A crash of the
process loses the records that are not written yet.  Nothing here delays or fails a request: a
failed write is repeated, then the records are lost, counted and logged.

Of one account, one object is written at a time, and of all accounts :data:`_WRITES`: an account
whose container does not answer delays no other.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from swift.common.utils import cache_from_env, generate_trans_id

from storlet_middleware import metrics
from storlet_middleware.concurrency import GreenTask, Timeout, monotonic, semaphore, sleep, spawn
from storlet_middleware.config import Config
from storlet_middleware.records.batches import Batch, batches_of
from storlet_middleware.records.queue import RecordQueue
from storlet_middleware.records.record import Record
from storlet_middleware.records.store import RecordStore
from storlet_middleware.wsgi.swift_paths import AccountPath

#: Well below the five seconds that a crash may lose.
INTERVAL_SECONDS: Final = 3.0
#: Objects of an account that may be written before their interval has passed: the runs of an author
#: who tries something, and half of the objects that one request for records reads.
EARLY: Final = 50
#: The part of the interval after which an early object is written.
_SOON: Final = 0.1
#: Attempts at a write that can succeed later.
_ATTEMPTS: Final = 3
_WRITES: Final = 8
#: Interval of the log lines about lost records.
_REPORT_SECONDS: Final = 60.0


class Writer:
    """One per proxy process.

    :param app: the rest of the pipeline.
    """

    def __init__(
        self, app: Any, config: Config, logger: Any, interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        self._store = RecordStore(app, config)
        self._logger = logger
        self._interval_seconds = interval_seconds
        self._soon_seconds = interval_seconds * _SOON
        self._queue = RecordQueue()
        self._slots = semaphore(_WRITES)
        self._cache: Any = None
        self._losses = _Losses(logger)
        self._task: GreenTask | None = None
        #: Accounts whose records are being written.
        self._busy: dict[AccountPath, GreenTask] = {}
        #: When the intervals of all written objects of an account will have passed.
        self._spent: dict[AccountPath, float] = {}

    def keep(self, environ: dict[str, Any], account_path: AccountPath, record: Record) -> None:
        """Queue ``record``; does not wait, and does not raise."""
        loser = self._queue.add(account_path, record)
        if loser is not None:
            self._losses.count(loser, 1, "the queue is full")
        if self._task is None:
            # Swift's memcached client is the same for all requests of a process.
            self._cache = cache_from_env(environ)
            self._task = spawn(self._run)

    def flush(self) -> None:
        """Write all records that wait now, and return when that has ended."""
        self._begin(self._queue.account_paths)
        while self._busy:
            next(iter(self._busy.values())).wait()

    def _run(self) -> None:
        try:
            while self._queue or self._busy:
                sleep(self._soon_seconds)
                now = monotonic()
                self._begin([each for each in self._queue.account_paths if self._due(each) <= now])
                self._spent = {
                    account_path: end for account_path, end in self._spent.items() if end > now
                }
        finally:
            self._task = None

    def _due(self, account_path: AccountPath) -> float:
        """When the waiting records of an account may be written."""
        early = self._spent.get(account_path, 0.0) - EARLY * self._interval_seconds
        return max(self._queue.since(account_path) + self._soon_seconds, early)

    def _begin(self, account_paths: list[AccountPath]) -> None:
        """Begin to write the waiting records of those accounts that have no write in progress."""
        now = monotonic()
        for account_path in account_paths:
            if account_path not in self._busy:
                spent = max(now, self._spent.get(account_path, 0.0)) + self._interval_seconds
                self._spent[account_path] = min(spent, now + (EARLY + 1) * self._interval_seconds)
                self._busy[account_path] = spawn(
                    self._write_all, account_path, self._queue.take(account_path)
                )

    def _write_all(self, account_path: AccountPath, records: list[Record]) -> None:
        try:
            for batch in batches_of(account_path, records):
                self._write(batch)
        finally:
            del self._busy[account_path]

    def _write(self, batch: Batch) -> None:
        body, why = batch.body(), ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                sleep(self._interval_seconds)
            why, can_succeed = self._attempt(batch, body)
            if not why:
                metrics.records_written(self._logger, len(batch.records))
                return
            if not can_succeed:
                break
        self._losses.count(batch.account_path, len(batch.records), why)

    def _attempt(self, batch: Batch, body: bytes) -> tuple[str, bool]:
        """Why the write failed, empty if it has not, and whether another attempt can succeed."""
        self._slots.acquire()
        try:
            status = self._store.write(self._environ(), batch.account_path, batch.name, body)
        except (Exception, Timeout) as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            return repr(error)[:200], True
        finally:
            self._slots.release()
        if status // 100 == 2:
            return "", False
        return f"Swift answered {status}", status >= 500

    def _environ(self) -> dict[str, Any]:
        """The environment of a request that no client has sent."""
        environ: dict[str, Any] = {"swift.trans_id": generate_trans_id("-records")}
        if self._cache is not None:
            environ["swift.cache"] = self._cache
        return environ


class _Losses:
    """Counts lost records, and logs them at intervals."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._records = 0
        self._next_report = 0.0

    def count(self, account_path: AccountPath, records: int, why: str) -> None:
        """Count records that are not written."""
        metrics.records_lost(self._logger, records)
        self._records += records
        if monotonic() >= self._next_report:
            self._next_report = monotonic() + _REPORT_SECONDS
            self._logger.warning(
                "records lost records=%d account=%s why=%s",
                self._records,
                quote(account_path.account),
                why,
            )
            self._records = 0
