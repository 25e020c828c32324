"""Log lines of running storlets, stored for the clients that follow them.

A proxy has the lines of each run that it serves: of its own storlets, and in frames from object
nodes.  While an account is followed (:mod:`~.followed`), a green task of the account stores its new
lines once a second, as an object that expires after ten minutes::

    .lines/20261123T191117.123456Z-5f0c9a3d21b7.jsonl

Nothing here delays or fails a run.  An account has :data:`_ACCOUNT_BYTES` a second, and all
accounts of a process :data:`_PROCESS_BYTES`; what is above, or cannot be written, is left out, and
a row ``{"time": TIME, "skipped_bytes": NUMBER}`` has the number of bytes.

If the account is not followed, its lines are dropped.  That is looked up in Swift's cache at most
once in :data:`_CHECK_SECONDS`, for accounts with runs that are long and write to their logs.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from typing import Any, Final

from swift.common.utils import cache_from_env, generate_trans_id

from storlet_middleware.concurrency import Timeout, monotonic, semaphore, sleep, spawn
from storlet_middleware.config import Config
from storlet_middleware.engine.log_pieces import LogPiece
from storlet_middleware.records import followed
from storlet_middleware.records.batches import LINES_PREFIX, new_name
from storlet_middleware.records.record import time_text
from storlet_middleware.records.store import RecordStore
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.swift_paths import AccountPath

#: A run that is shorter sends no lines, unless the account was followed when it began.
DELAY_SECONDS: Final = 2.0
_INTERVAL_SECONDS: Final = 1.0
_CHECK_SECONDS: Final = 3.0
#: Without new lines for this time, the task of the account ends.
_IDLE_SECONDS: Final = 4.0
_ACCOUNT_BYTES: Final = 64 << 10
_PROCESS_BYTES: Final = 16 << 20
_WRITES: Final = 8
_ROW_BYTES: Final = 200


class _Waiting:
    """The new lines of one account."""

    __slots__ = ("bytes", "cache", "is_followed", "next_check", "rows", "skipped")

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.rows: list[dict[str, Any]] = []
        self.bytes = self.skipped = 0
        self.is_followed = False
        self.next_check = 0.0

    def take(self) -> list[dict[str, Any]]:
        """The rows, with one for the bytes that are left out."""
        rows, skipped = self.rows, self.skipped
        self.rows, self.bytes, self.skipped = [], 0, 0
        if skipped:
            rows.append({"time": time_text(time.time()), "skipped_bytes": skipped})
        return rows


class LogLines:
    """One per proxy process.

    :param app: the rest of the pipeline.
    """

    def __init__(self, app: Any, config: Config, logger: Any) -> None:
        self._app = app
        self._store = RecordStore(app, config, LINES_PREFIX)
        self._logger = logger
        self._slots = semaphore(_WRITES)
        self._waiting: dict[AccountPath, _Waiting] = {}
        self._bytes = 0

    def receiver(
        self, environ: dict[str, Any], account_path: AccountPath, run_id: str, storlet: str
    ) -> Callable[[LogPiece], None]:
        """Receives the log of one storlet of a run."""
        return functools.partial(self._add, environ, account_path, run_id, storlet)

    def _add(
        self,
        environ: dict[str, Any],
        account_path: AccountPath,
        run_id: str,
        storlet: str,
        piece: LogPiece,
    ) -> None:
        """Keep ``piece`` until it is written; does not wait, and does not raise."""
        waiting = self._waiting.get(account_path)
        if waiting is None:
            waiting = self._waiting[account_path] = _Waiting(cache_from_env(environ))
            spawn(self._run, account_path, waiting)
        size = len(piece.text) + _ROW_BYTES
        if waiting.bytes + size > _ACCOUNT_BYTES or self._bytes + size > _PROCESS_BYTES:
            waiting.skipped += len(piece.text.encode()) + piece.skipped_bytes
            return
        row: dict[str, Any] = {
            "id": run_id,
            "time": time_text(time.time()),
            "storlet": storlet,
            "lines": piece.text,
        }
        if piece.skipped_bytes:
            row["skipped_bytes"] = piece.skipped_bytes
        waiting.rows.append(row)
        waiting.bytes += size
        self._bytes += size

    def _run(self, account_path: AccountPath, waiting: _Waiting) -> None:
        """Write the lines of an account until there are no more."""
        end = monotonic() + _IDLE_SECONDS
        try:
            while monotonic() < end:
                sleep(_INTERVAL_SECONDS)
                if waiting.rows or waiting.skipped:
                    end = monotonic() + _IDLE_SECONDS
                    self._pass_on(account_path, waiting)
        finally:
            self._bytes -= waiting.bytes
            del self._waiting[account_path]

    def _pass_on(self, account_path: AccountPath, waiting: _Waiting) -> None:
        self._bytes -= waiting.bytes
        rows = waiting.take()
        try:
            if self._is_followed(account_path, waiting) and self._write(
                account_path, waiting, rows
            ):
                return
        except (Exception, Timeout) as error:  # noqa: BLE001 - Swift's timeouts are no Exception
            self._logger.warning("log lines not written: %r", error)
        if waiting.is_followed:
            waiting.skipped += sum(_size(row) for row in rows)

    def _is_followed(self, account_path: AccountPath, waiting: _Waiting) -> bool:
        if monotonic() >= waiting.next_check:
            waiting.next_check = monotonic() + _CHECK_SECONDS
            environ = {
                **_environ(waiting),
                "PATH_INFO": wsgi(f"/{account_path.version}/{account_path.account}"),
            }
            waiting.is_followed = followed.is_followed(environ, self._app, account_path.account)
        return waiting.is_followed

    def _write(
        self, account_path: AccountPath, waiting: _Waiting, rows: list[dict[str, Any]]
    ) -> bool:
        body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        name = new_name(time.time(), LINES_PREFIX)
        self._slots.acquire()
        try:
            status = self._store.write(_environ(waiting), account_path, name, body)
        finally:
            self._slots.release()
        return status // 100 == 2


def _environ(waiting: _Waiting) -> dict[str, Any]:
    """The environment of a request that no client has sent."""
    environ: dict[str, Any] = {"swift.trans_id": generate_trans_id("-lines")}
    if waiting.cache is not None:
        environ["swift.cache"] = waiting.cache
    return environ


def _size(row: dict[str, Any]) -> int:
    """The bytes of log that a row is about."""
    return len(str(row.get("lines", "")).encode()) + int(row.get("skipped_bytes", 0))
