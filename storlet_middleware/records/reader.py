"""Finds records of an account: newest first, in pages, with bounded work for each request.

The order is that of the objects that hold records, newest first, and within a page that of the
time.  So two records of different processes may be up to five seconds out of order at the border of
two pages; no record is missing or repeated.  A page ends after ``limit`` records, or after the work
that one request may cause; then it has a marker, also if it has no records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware.concurrency import Pace
from storlet_middleware.errors import BackendFailed
from storlet_middleware.records.batches import SPAN_SECONDS, name_at
from storlet_middleware.records.query import Marker, Query
from storlet_middleware.records.record import Viewer
from storlet_middleware.records.store import RecordStore
from storlet_middleware.wsgi.swift_paths import AccountPath

#: The objects, and the bytes of them, that one request reads.
MAX_OBJECTS: Final = 100
MAX_BYTES: Final = 16 << 20
#: Sorts after the end of every name that begins with the same time.
_AFTER: Final = "~"
#: Swift's transaction ids have the second in which the request began.
_ID: Final = re.compile(r"tx[0-9a-f]{21}-([0-9a-f]{10})")


@dataclass(frozen=True)
class Page:
    """Records as a caller sees them; ``next`` is ``None`` if there are no more."""

    records: list[dict[str, Any]]
    next: Marker | None


class RecordReader:
    """Reads the records of one account for one caller."""

    def __init__(
        self, store: RecordStore, environ: dict[str, Any], account_path: AccountPath, viewer: Viewer
    ) -> None:
        self._store = store
        self._environ = environ
        self._account_path = account_path
        self._viewer = viewer
        self._bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether it has read as much as one request may."""
        return self._bytes > MAX_BYTES

    def page(self, query: Query) -> Page:
        """The records that match ``query``, from its marker on."""
        names = self._store.names(self._environ, self._account_path, _bounds(query), MAX_OBJECTS)
        found: list[dict[str, Any]] = []
        for name in names:
            for older, view in self._views(name, query):
                found.append(view)
                if len(found) == query.limit:
                    return Page(_newest_first(found), Marker(name, older))
            if self.is_spent:
                return Page(_newest_first(found), Marker(name, 0))
        is_complete = len(names) < MAX_OBJECTS
        return Page(_newest_first(found), None if is_complete else Marker(names[-1], 0))

    def views(self, name: str, query: Query) -> Iterator[dict[str, Any]]:
        """The records of one object that match ``query``, newest first."""
        return (view for _, view in self._views(name, query))

    def rows(self, name: str, query: Query) -> Iterator[dict[str, Any]]:
        """The rows of an object with log lines that match ``query``, newest first; none for callers
        that do not see logs.
        """
        if not self._viewer.is_owner:
            return
        for _, row in self._records(name, None):
            if query.matches_lines(row):
                yield row

    def find(self, query: Query) -> Page:
        """The record with the id of ``query``, if the caller sees it.

        Objects are read from the time on at which the request of the run began.
        """
        began = _ID.match(query.id)
        bounds = {"marker": name_at(int(began[1], 16))} if began else {}
        if query.marker is not None:
            bounds = {"marker": query.marker.name}
        names = self._store.names(self._environ, self._account_path, bounds, MAX_OBJECTS)
        for name in names:
            for _, record in self._records(name, None):
                if record.get("id") == query.id:
                    view = self._viewer.view(record)
                    return Page([] if view is None else [view], None)
            if self.is_spent:
                return Page([], Marker(name, 0))
        return Page([], None if len(names) < MAX_OBJECTS else Marker(names[-1], 0))

    def _views(self, name: str, query: Query) -> Iterator[tuple[int, dict[str, Any]]]:
        for older, record in self._records(name, query.marker):
            view = self._viewer.view(record)
            if view is not None and query.matches(view):
                yield older, view

    def _records(self, name: str, marker: Marker | None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The records of an object, newest first, each with the number of older ones."""
        body = self._store.read(self._environ, self._account_path, name)
        self._bytes += len(body)
        lines = body.splitlines()
        if marker is not None and marker.name == name:
            lines = lines[: marker.older]
        pace = Pace()
        for older in range(len(lines) - 1, -1, -1):
            yield older, _record(lines[older], name)
            pace.pause()


def _record(line: bytes, name: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BackendFailed(f"{name} is damaged: {error}") from error
    if not isinstance(record, dict):
        raise BackendFailed(f"{name} is damaged: a line is no record")
    return record


def _bounds(query: Query) -> dict[str, str]:
    """The part of the listing that can have records of the query's time, from its marker on."""
    bounds = {"reverse": "true"}
    if query.until is not None:
        bounds["marker"] = name_at(query.until + SPAN_SECONDS) + _AFTER
    if query.marker is not None:
        after = _AFTER if query.marker.older else ""
        bounds["marker"] = min(query.marker.name + after, bounds.get("marker", _AFTER))
    if query.since is not None:
        bounds["end_marker"] = name_at(query.since)
    return bounds


def _newest_first(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: str(record.get("time")), reverse=True)
