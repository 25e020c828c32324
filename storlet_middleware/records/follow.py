"""``?storlet-runs&follow``: records of runs as they are written, by all proxies of the cluster.

The proxy that has the request lists the objects that hold records once a second.  It sends a line
of JSON for each new record that the query includes, or an empty line, which shows that the stream
lives.  A record comes some four seconds after its run.  The stream ends after :data:`MAX_SECONDS`;
the client requests another.

The work is bounded.  Of more than :data:`_OBJECTS` new objects in a second the newest are read, and
a line ``{"skipped_objects": NUMBER}`` counts the rest.  An account has at most :data:`_OF_ACCOUNT`
such requests in a process, and all have :data:`_OF_ALL`.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import NodeBusy, StorletError, TenantBusy
from storlet_middleware.records.batches import SPAN_SECONDS, Place, name_at
from storlet_middleware.records.query import Query, seconds_of
from storlet_middleware.records.reader import MAX_OBJECTS, RecordReader
from storlet_middleware.records.record import Viewer
from storlet_middleware.records.store import RecordStore

#: Rights of the caller are checked at the begin of a stream only.
MAX_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 1.0
_OBJECTS: Final = 20
_OF_ACCOUNT: Final = 4
_OF_ALL: Final = 32
#: A record can be this much older than the time at which its object is listed: a write is repeated.
_LATE_SECONDS: Final = 30.0
#: Polls in a row that may fail before the stream breaks.
_FAILURES: Final = 5


class Followers:
    """The number of streams in a process."""

    def __init__(self) -> None:
        self._streams: dict[Place, int] = {}

    def acquire(self, place: Place) -> Callable[[], None]:
        """Count a stream; call the result when it has ended.

        :raises TenantBusy: the account has its maximum; :raises NodeBusy: the process has.
        """
        own = self._streams.get(place, 0)
        if own >= _OF_ACCOUNT:
            raise TenantBusy(f"the account follows its runs {own} times through this server")
        if sum(self._streams.values()) >= _OF_ALL:
            raise NodeBusy("too many clients follow runs through this server")
        self._streams[place] = own + 1
        return functools.partial(self._release, place)

    def _release(self, place: Place) -> None:
        self._streams[place] -= 1
        if not self._streams[place]:
            del self._streams[place]


class Follow:
    """One stream.

    :param environ: the client's request.
    :param now: the time as in records.
    """

    def __init__(
        self,
        store: RecordStore,
        environ: dict[str, Any],
        place: Place,
        viewer: Viewer,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._environ = environ
        self._place = place
        self._viewer = viewer
        self._now = now
        self._began = now()
        self._seen: set[str] = set()

    def lines(self, query: Query) -> Iterator[bytes]:
        """The stream; raises if Swift cannot be read for some seconds."""
        end, failures = monotonic() + MAX_SECONDS, 0
        while monotonic() < end:
            try:
                lines = self.poll(query)
                failures = 0
            except StorletError:
                lines, failures = [], failures + 1
                if failures == _FAILURES:
                    raise
            yield b"".join(lines) or b"\n"
            sleep(_POLL_SECONDS)

    def poll(self, query: Query) -> list[bytes]:
        """The lines of the records that are new since the last call."""
        # Swift caches facts of containers in the environment of a request.
        environ = {**self._environ, "swift.infocache": {}}
        bounds = {
            "reverse": "true",
            "end_marker": name_at(max(self._began - SPAN_SECONDS, self._now() - _LATE_SECONDS)),
        }
        listed = self._store.names(environ, self._place, bounds, MAX_OBJECTS)
        new = [name for name in listed if name not in self._seen]
        reader = RecordReader(self._store, environ, self._place, self._viewer)
        lines = []
        for name in reversed(new[:_OBJECTS]):
            found = [view for view in reader.views(name, query) if _time(view) >= self._began]
            lines += [json.dumps(view).encode() + b"\n" for view in reversed(found)]
        # Only now: a failed poll is repeated.
        self._seen = set(listed)
        if new[_OBJECTS:]:
            lines.append(json.dumps({"skipped_objects": len(new) - _OBJECTS}).encode() + b"\n")
        return lines


def _time(view: dict[str, Any]) -> float:
    return seconds_of(str(view.get("time", ""))) or 0.0
