"""The parameters of a request for records, parsed once; all faults are reported together.

Swift's ``listing_formats`` sets ``format=json`` in each GET of an account, and refuses an
``Accept`` without a type of its own.  So the value of ``storlet-runs`` selects the format, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from storlet_middleware.config import nearest
from storlet_middleware.errors import TABLE, BadRequest, fault
from storlet_middleware.records.batches import KEY, name_of_key
from storlet_middleware.records.record import OK, REFUSED, Outcome

#: The parameter that makes a GET of an account a request for records.
RUNS: Final = "storlet-runs"
JSON: Final = "application/json"
LINES: Final = "application/jsonl"
_FORMATS: Final = {"json": JSON, "jsonl": LINES}
_ACCEPTED: Final = {LINES: LINES, "application/x-ndjson": LINES, "application/x-jsonlines": LINES}
_PARAMETERS: Final = (
    RUNS, "storlet", "outcome", "since", "until", "limit", "marker", "id", "format", "follow",
    "lines",
)  # fmt: skip
#: These select one record, and the form of the answer.
_WITH_ID: Final = frozenset((RUNS, "id", "format", "marker"))
#: These select the records of a stream, which has all from now on.
_WITH_FOLLOW: Final = frozenset((RUNS, "storlet", "outcome", "format", "follow", "lines"))
_OUTCOMES: Final = tuple(outcome.value for outcome in Outcome)
_CODES: Final = (OK, REFUSED, *TABLE)
_DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
#: A bundle and the number of one of its versions.
_NUMBERED: Final = re.compile(r"(.+)@[0-9]+", re.ASCII)
_TIME_FORM: Final = "want a time such as 2026-11-23T19:00:00Z, or seconds since 1970"
#: Seconds of the first and of the last time that has a name (years 1970 to 9999).
_LAST_SECONDS: Final = 253_402_300_799.0


@dataclass(frozen=True)
class Marker:
    """A position in the order of all records: an object, and the number of its records that are
    older.
    """

    name: str
    older: int

    @property
    def text(self) -> str:
        """The parameter; the reverse of parsing."""
        return f"{self.name.rpartition('/')[2].removesuffix('.jsonl')}.{self.older}"


@dataclass(frozen=True)
class Query:
    """One request; ``None`` and empty are not given."""

    storlet: str = ""
    outcome: str = ""
    since: float | None = None
    until: float | None = None
    limit: int = _DEFAULT_LIMIT
    marker: Marker | None = None
    id: str = ""
    media_type: str = JSON
    follows: bool = False
    #: Log lines of running storlets, too.
    lines: bool = False

    def matches(self, view: Mapping[str, Any]) -> bool:
        """Whether the query includes a record of which the caller sees ``view``.

        Fields that the caller does not see must not be found out by a search.
        """
        if self.storlet and not any(map(self._is_of_storlet, view.get("storlets", ()))):
            return False
        if self.outcome and self.outcome not in (view.get("outcome"), view.get("code")):
            return False
        time = seconds_of(str(view.get("time", ""))) or 0.0
        is_late = self.since is not None and time < self.since
        return not is_late and (self.until is None or time < self.until)

    def matches_lines(self, row: Mapping[str, Any]) -> bool:
        """The same for a row with log lines; a row without a storlet is about several."""
        if not self.storlet or "storlet" not in row:
            return True
        return self._is_of_storlet({"name": row["storlet"]})

    def _is_of_storlet(self, ran: Mapping[str, Any]) -> bool:
        """Whether a storlet of a record is the one of the query.

        ``NAME`` includes all versions.  ``NAME@3`` is version 3, also of a request for ``NAME``.
        """
        name = str(ran.get("name", ""))
        numbered = _NUMBERED.fullmatch(name)
        stem = numbered[1] if numbered else name
        version = f"{stem}@{ran['version']}" if "version" in ran else name
        return self.storlet in (name, stem, version)


def parse(given: Mapping[str, str], accept: str) -> Query:
    """The query of ``given``, the parameters; ``accept`` is the request's header.

    :raises BadRequest: with all faults.
    """
    faults = [
        f"unknown parameter {name!r}{nearest(name, list(_PARAMETERS))}"
        for name in given
        if name not in _PARAMETERS
    ]
    if given.get("id"):
        faults += _unsupported(given, "id", _WITH_ID)
    elif "follow" in given:
        faults += _unsupported(given, "follow", _WITH_FOLLOW)
    if "lines" in given and "follow" not in given:
        faults.append("lines: only supported with follow: add it, or leave lines out")
    if "lines" in given and given.get("outcome"):
        faults.append("lines: a running storlet has no outcome: leave one of them out")
    values: dict[str, Any] = {
        "since": _time("since", given.get("since", ""), faults),
        "until": _time("until", given.get("until", ""), faults),
        "limit": _limit(given.get("limit", ""), faults),
        "marker": _marker(given.get("marker", ""), faults),
        "outcome": _outcome(given.get("outcome", ""), faults),
        "media_type": _media_type(given, accept, faults),
    }
    if faults:
        raise BadRequest("; ".join(faults))
    values |= {"storlet": given.get("storlet", ""), "id": given.get("id", "")}
    return Query(follows="follow" in given, lines="lines" in given, **values)


def _unsupported(given: Mapping[str, str], mode: str, supported: frozenset[str]) -> list[str]:
    return [
        f"{name}: not supported with {mode}: leave it out"
        for name in _PARAMETERS
        if name in given and name not in supported
    ]


def _time(name: str, value: str, faults: list[str]) -> float | None:
    if not value:
        return None
    seconds = seconds_of(value)
    if seconds is None:
        faults.append(fault(name, value, _TIME_FORM))
    return seconds


def seconds_of(value: str) -> float | None:
    """Seconds since 1970 of a time in either form; ``None`` if it is none."""
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value, re.ASCII):
        seconds = float(value)
    else:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        # A time without a zone is UTC, as in records.
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return seconds if 0 <= seconds < _LAST_SECONDS else None


def _limit(value: str, faults: list[str]) -> int:
    if not value:
        return _DEFAULT_LIMIT
    if re.fullmatch(r"[0-9]{1,9}", value, re.ASCII) and 1 <= int(value) <= MAX_LIMIT:
        return int(value)
    faults.append(fault("limit", value, f"want a number from 1 to {MAX_LIMIT}"))
    return 0


def _marker(value: str, faults: list[str]) -> Marker | None:
    if not value:
        return None
    key, _, older = value.rpartition(".")
    if KEY.fullmatch(key) and re.fullmatch(r"[0-9]{1,7}", older, re.ASCII):
        return Marker(name_of_key(key), int(older))
    faults.append(fault("marker", value, "want the X-Storlet-Runs-Next of an earlier answer"))
    return None


def _outcome(value: str, faults: list[str]) -> str:
    known = (*_OUTCOMES, *_CODES)
    if value and value not in known:
        close = nearest(value, list(known))
        wanted = f"want {', '.join(_OUTCOMES)} or an error code{close}"
        faults.append(fault("outcome", value, wanted))
    return value


def _media_type(given: Mapping[str, str], accept: str, faults: list[str]) -> str:
    asked = {name: given[name] for name in (RUNS, "format") if given.get(name)}
    for name, value in asked.items():
        if value not in _FORMATS:
            wanted = f"want {' or '.join(_FORMATS)}{nearest(value, list(_FORMATS))}"
            faults.append(fault(name, value, wanted))
    if RUNS in asked:
        return _FORMATS.get(asked[RUNS], JSON)
    if LINES in (_FORMATS.get(value) for value in asked.values()):
        return LINES
    accepted = (part.partition(";")[0].strip().lower() for part in accept.split(","))
    return next((_ACCEPTED[each] for each in accepted if each in _ACCEPTED), JSON)
