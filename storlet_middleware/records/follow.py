"""``?storlet-runs&follow``: records of runs as they are written, by all proxies of the cluster.

With ``lines``, it is log lines of running storlets as well.

The proxy that has the request lists the objects that hold records once a second, and less often
while nothing comes (:class:`Interval`).  It sends a line of JSON for each new record that the query
includes, or an empty line, which shows that the stream lives.  A record comes some five seconds
after its run, and a line of a log some six after it was written (:mod:`~.lines`).  The stream ends
after :data:`MAX_SECONDS`; the client requests another.

The work is bounded.  Of more than :data:`_OBJECTS` new objects in a second, or more bytes than one
request for records reads, the newest are read, and a line ``{"skipped_objects": NUMBER}`` counts
the rest.  An account has at most :data:`_OF_ACCOUNT`
such requests in a process, and all have :data:`_OF_ALL`.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from swift.common import constraints

from storlet_middleware.concurrency import has_hung_up, monotonic, sleep
from storlet_middleware.config import Config
from storlet_middleware.errors import NodeBusy, StorletError, TenantBusy
from storlet_middleware.records import followed
from storlet_middleware.records.batches import LINES_PREFIX, PREFIX, SPAN_SECONDS, name_at
from storlet_middleware.records.query import Query, seconds_of
from storlet_middleware.records.reader import RecordReader
from storlet_middleware.records.record import Viewer
from storlet_middleware.records.store import RecordStore
from storlet_middleware.wsgi.disconnect import client_socket
from storlet_middleware.wsgi.swift_paths import AccountPath

#: Rights of the caller are checked at the start of a stream only.
MAX_SECONDS: Final = 600.0
#: Time between two polls of a stream that has new lines, or had some within the time below.
_POLL_SECONDS: Final = 1.0
_ACTIVE_SECONDS: Final = 5.0
#: The same for a stream without new lines, and the most.
_IDLE_POLL_SECONDS: Final = 2.0
_MOST_POLL_SECONDS: Final = 3.0
#: The part of the time that the polls of a stream may take, as far as the most allows.
_SHARE: Final = 0.01
#: New objects that are read for each second since the poll before.
_OBJECTS: Final = 20
#: Objects that a poll lists.  It looks back :data:`_LATE_SECONDS`, in which an account has about
#: ten objects of each process that serves it.  A stream misses those above this number.
_LISTED: Final = 1000
_MARK_SECONDS: Final = 5.0
_OF_ACCOUNT: Final = 4
_OF_ALL: Final = 32
#: A record can be this much older than the time at which its object is listed: a write is repeated.
_LATE_SECONDS: Final = 30.0
#: Polls in a row that may fail before the stream breaks.
_FAILURES: Final = 5


class Stores:
    """The objects of all accounts that streams read.

    :param app: the rest of the pipeline.
    """

    def __init__(self, app: Any, config: Config) -> None:
        self._app = app
        self.records = RecordStore(app, config)
        self.lines = RecordStore(app, config, LINES_PREFIX)

    def mark(self, environ: dict[str, Any], account_path: AccountPath) -> None:
        """Mark the account as followed."""
        followed.mark(self._app, environ, account_path)


class Followers:
    """The number of streams in a process."""

    def __init__(self) -> None:
        self._streams: dict[AccountPath, int] = {}

    def acquire(self, account_path: AccountPath) -> Callable[[], None]:
        """Count a stream; call the result when it has ended.

        :raises TenantBusy: the account has its maximum; :raises NodeBusy: the process has.
        """
        own = self._streams.get(account_path, 0)
        if own >= _OF_ACCOUNT:
            raise TenantBusy(f"the account follows its runs {own} times through this server")
        if sum(self._streams.values()) >= _OF_ALL:
            raise NodeBusy("too many clients follow runs through this server")
        self._streams[account_path] = own + 1
        return functools.partial(self._release, account_path)

    def _release(self, account_path: AccountPath) -> None:
        self._streams[account_path] -= 1
        if not self._streams[account_path]:
            del self._streams[account_path]


class Interval:
    """The time between two polls of a stream.

    Other accounts pay for polls, which are requests to container servers, so a stream polls less
    often while it has nothing new, and where the server is slow.
    """

    def __init__(self) -> None:
        self.seconds = _POLL_SECONDS
        self._active_until = monotonic() + _ACTIVE_SECONDS

    def update(self, began: float, *, has_new: bool) -> None:
        """Set the time after a poll that began at ``began`` (monotonic) and has ended now."""
        now = monotonic()
        if has_new:
            self._active_until = now + _ACTIVE_SECONDS
        usual = _POLL_SECONDS if now < self._active_until else _IDLE_POLL_SECONDS
        self.seconds = min(max(usual, (now - began) / _SHARE), _MOST_POLL_SECONDS)


class Follow:
    """One stream.

    :param environ: the client's request.
    :param now: the time as in records.
    """

    def __init__(
        self,
        stores: Stores,
        environ: dict[str, Any],
        account_path: AccountPath,
        viewer: Viewer,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stores = stores
        self._environ = environ
        self._account_path = account_path
        self._viewer = viewer
        self._now = now
        self._began = now()
        self._records = _Unseen(stores.records, PREFIX)
        self._lines = _Unseen(stores.lines, LINES_PREFIX)
        self._next_mark = 0.0
        self._interval = Interval()

    def lines(self, query: Query) -> Iterator[bytes]:
        """The stream; raises if Swift cannot be read for some seconds."""
        end, failures = monotonic() + MAX_SECONDS, 0
        client = client_socket(self._environ)
        fd = client.fileno() if client is not None else -1
        # A server notices that a client has disconnected at its second write after that.
        while monotonic() < end and not (fd >= 0 and has_hung_up(fd)):
            began = monotonic()
            try:
                lines = self.poll(query)
                failures = 0
            except StorletError:
                lines, failures = [], failures + 1
                if failures == _FAILURES:
                    raise
            self._interval.update(began, has_new=bool(lines))
            yield b"".join(lines) or b"\n"
            sleep(self._interval.seconds)

    def poll(self, query: Query) -> list[bytes]:
        """The lines of the records, and of logs, that are new since the last call."""
        # Swift caches facts of containers in the environment of a request.
        environ = {**self._environ, "swift.infocache": {}}
        if query.lines and monotonic() >= self._next_mark:
            self._stores.mark(environ, self._account_path)
            self._next_mark = monotonic() + _MARK_SECONDS
        reader = RecordReader(self._stores.records, environ, self._account_path, self._viewer)
        found = self._new(environ, self._records, reader, lambda name: reader.views(name, query))
        if query.lines:
            of_logs = RecordReader(self._stores.lines, environ, self._account_path, self._viewer)
            # Lines first: those of a run come before its record.
            lines = self._new(environ, self._lines, of_logs, lambda name: of_logs.rows(name, query))
            found = lines + found
        # Only now: a failed poll is repeated.
        for unseen in (self._records, self._lines):
            unseen.commit()
        return found

    def _new(
        self,
        environ: dict[str, Any],
        unseen: _Unseen,
        reader: RecordReader,
        views: Callable[[str], Iterator[dict[str, Any]]],
    ) -> list[bytes]:
        """The JSON lines of new objects, oldest first.

        :param views: the rows of an object that are for this stream, newest first, of ``reader``.
        """
        begin = max(self._began - SPAN_SECONDS, self._now() - _LATE_SECONDS)
        new = unseen.names(environ, self._account_path, begin)
        most = int(_OBJECTS * max(self._interval.seconds, 1.0))
        newest_first: list[bytes] = []
        count = 0
        for name in new[:most]:
            if reader.is_spent:
                break
            count += 1
            # Encoded one by one: the reader pauses between rows.
            newest_first += (
                json.dumps(view).encode() + b"\n"
                for view in views(name)
                if _time(view) >= self._began
            )
        lines = newest_first[::-1]
        if new[count:]:
            lines.append(json.dumps({"skipped_objects": len(new) - count}).encode() + b"\n")
        return lines


class _Unseen:
    """The objects of one kind that a stream has not read."""

    def __init__(self, store: RecordStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._seen: set[str] = set()
        self._listed: list[str] = []

    def names(self, environ: dict[str, Any], account_path: AccountPath, begin: float) -> list[str]:
        """The new objects since ``begin``, newest first."""
        bounds = {"reverse": "true", "end_marker": name_at(begin, self._prefix)}
        # Swift refuses a limit above its own.
        most = min(_LISTED, constraints.CONTAINER_LISTING_LIMIT)
        self._listed = self._store.names(environ, account_path, bounds, most)
        return [name for name in self._listed if name not in self._seen]

    def commit(self) -> None:
        """The listed objects have been read."""
        self._seen = set(self._listed)


def _time(view: dict[str, Any]) -> float:
    return seconds_of(str(view.get("time", ""))) or 0.0
