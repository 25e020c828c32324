"""Databases of DuckDB that several runs of a test module use, one after the other.

The start and the end of a database take 20 ms of the processor, which is more than most runs of a
test.  A run still has a session of its own, and the database is closed in: of files it has only
descriptors.  It is ended after a run that failed, or that left anything but a session.

Tests of the opening, the closing in and the limits of a database have new ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import fsspec

_FOLDER, _OBJECT = "/proc/self/fd/", "object://input"
_ALLOWED = re.compile(rf"SET allowed_paths = \[('({_FOLDER}\d+|{_OBJECT})'(, )?)*\]")
#: Statements whose effect the database has already.
_CLOSED_IN = {"SET enable_external_access = false", "SET lock_configuration = true"}
#: Statements that change one session only.
_OF_A_SESSION = re.compile(
    r"SET (TimeZone|enable_progress_bar|streaming_buffer_size) |"
    r"CREATE OR REPLACE TEMPORARY VIEW |DROP VIEW ",
    re.IGNORECASE,
)
#: Statements that make what stays after the session.
_MADE = re.compile(r'CREATE (VIEW|TABLE|MACRO) ("[^"]*"|\w+)')
#: Errors before a statement begins.
_UNBEGUN = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_ONE_THREAD = "SET threads = 1"
_STATE = re.compile(r"SET|CREATE|DROP|ALTER|ATTACH|LOAD|PRAGMA|RESET|USE|CALL", re.IGNORECASE)
_MOST = 3
_DESCRIPTORS = 256
_new = duckdb.connect


def _named() -> frozenset[str]:
    """Open descriptors of files that have names: a new database allows these files instead."""
    return frozenset(each.name for each in Path(_FOLDER).iterdir() if each.resolve().is_file())


class _Objects(fsspec.AbstractFileSystem):
    protocol = "object"


class Session:
    """A connection of one run."""

    def __init__(self, databases: Databases, key: tuple[Any, ...], database: Any) -> None:
        self._databases, self._key, self._database = databases, key, database
        self._inner = database.cursor()
        self._is_reusable = True
        self._is_closed_in = False
        self._undo: list[str] = []
        self._protocols: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if _ALLOWED.fullmatch(statement) or statement in _CLOSED_IN:
            self._is_closed_in = self._is_closed_in or statement.startswith("SET lock")
            self._inner.execute("SELECT NULL")
            return self
        if statement == _ONE_THREAD:
            self._undo.append(f"SET threads = {dict(self._key[:-1])['threads']}")
        elif made := _MADE.match(statement):
            self._undo.append(f"DROP {made[1]} IF EXISTS {made[2]}")
        elif _STATE.match(statement) and not _OF_A_SESSION.match(statement):
            self._is_reusable = False
        assert not (self._is_closed_in and statement.startswith("SET")), statement
        self._watched(self._inner.execute, statement, *values)
        return self

    def fetchmany(self, count: int) -> Any:
        return self._watched(self._inner.fetchmany, count)

    def fetchall(self) -> Any:
        return self._watched(self._inner.fetchall)

    def _watched(self, call: Callable[..., Any], *values: Any) -> Any:
        try:
            return call(*values)
        except _UNBEGUN:
            raise
        except BaseException:
            self._is_reusable = False
            raise

    def register_filesystem(self, file_system: Any) -> None:
        self._inner.register_filesystem(file_system)
        self._protocols.append(file_system.protocol)

    def interrupt(self) -> None:
        self._is_reusable = False
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
        if self._is_reusable:
            for statement in self._undo:
                self._database.execute(statement)
            for protocol in self._protocols:
                self._database.unregister_filesystem(protocol)
            self._databases.put_back(self._key, self._database)
        else:
            self._database.close()


class Databases:
    """Databases that no run uses, by their settings."""

    def __init__(self) -> None:
        self._idle: list[tuple[tuple[Any, ...], Any]] = []

    def connect(self, name: str = ":memory:", config: Mapping[str, str] | None = None) -> Any:
        """In place of ``duckdb.connect``."""
        if name != ":memory:" or not config:
            return _new(name, config=dict(config or {}))
        key = (*sorted(config.items()), _named())
        for row in self._idle:
            if row[0] == key:
                self._idle.remove(row)
                return Session(self, key, row[1])
        database = _new(name, config=dict(config))
        # The same path is another file in each run.
        database.execute("SET enable_external_file_cache = false")
        paths = [_OBJECT, *(f"{_FOLDER}{number}" for number in range(_DESCRIPTORS))]
        # Without its file system the engine would take the object's path for one of this folder.
        database.register_filesystem(_Objects(skip_instance_cache=True))
        database.execute(f"SET allowed_paths = {paths}")
        database.unregister_filesystem(_Objects.protocol)
        database.execute("SET enable_external_access = false")
        return Session(self, key, database)

    def put_back(self, key: tuple[Any, ...], database: Any) -> None:
        """Keep a database for the next run with its settings."""
        self._idle.append((key, database))
        if len(self._idle) > _MOST:
            self._idle.pop(0)[1].close()

    def close(self) -> None:
        """End those that are kept."""
        while self._idle:
            self._idle.pop()[1].close()
