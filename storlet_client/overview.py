"""The storlets of an account with their versions, limits and access, and their runs of a day.

The number of requests is bounded: two for each storlet, one for each of the first
:data:`MOST_CONTAINERS` containers (grants are properties of containers), and one for records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from storlet_client import limits, operations
from storlet_client.errors import Refused
from storlet_client.exchange import Call, Flow, together
from storlet_client.operations import Info, Storlet
from storlet_client.session import Session

MOST_CONTAINERS = 100
#: The largest page of the server.
MOST_RECORDS = 1000
HOURS = 24
_NOT_FOUND, _FORBIDDEN = 404, 403
#: Declared values that are no limits.
_NO_LIMITS = frozenset(("input-type", "output-type", "language-version", "records"))
_RECORDS = "x-account-meta-storlet-records"


@dataclass(frozen=True)
class ContainerGrant:
    """``user`` reads the objects of ``container`` through the storlet only."""

    container: str
    user: str


@dataclass(frozen=True)
class Counts:
    """Runs of the last day; ``None`` where the account does not record them.

    :param is_minimum: there are more records than one request reads.
    """

    runs: int | None = None
    failures: int | None = None
    is_minimum: bool = False

    @property
    def cells(self) -> dict[str, str]:
        """The numbers as a table shows them."""
        more = "+" if self.is_minimum else ""
        return {
            name: "-" if value is None else f"{value}{more}"
            for name, value in (("runs", self.runs), ("failures", self.failures))
        }


@dataclass(frozen=True)
class Row:
    """One storlet.

    :param version: the author's version of a bundle; ``number`` is the server's.
    :param limits: those that the storlet declares, by name.
    :param readers: of the container with the storlets; its owner may run all in any case.
    """

    storlet: Storlet
    version: str
    number: int | None
    limits: Mapping[str, str]
    readers: tuple[str, ...]
    grants: tuple[ContainerGrant, ...]
    counts: Counts

    @property
    def document(self) -> dict[str, Any]:
        """All values, for programs: limits are numbers, and what is not known is ``None``."""
        return {
            **asdict(self.storlet),
            "version": self.version,
            "number": self.number,
            "limits": limits.numbers(self.limits),
            "readers": list(self.readers),
            "grants": [asdict(each) for each in self.grants],
            "runs": self.counts.runs,
            "failures": self.counts.failures,
            "counts_are_minimum": self.counts.is_minimum,
        }

    @property
    def columns(self) -> dict[str, Any]:
        """The values of :data:`ALL_COLUMNS`, for programs."""
        granted = [f"{each.user} on {each.container}" for each in self.grants]
        return {**self.document, "access": [*self.readers, *granted]}

    @property
    def cells(self) -> dict[str, Any]:
        """The same for a table, which people read."""
        number = f" @{self.number}" if self.number else ""
        return {
            **self.columns,
            **self.counts.cells,
            "version": self.version + number,
            "limits": dict(self.limits),
        }


#: The columns of a list, and those of a list that need not fit a terminal.
COLUMNS = ("name", "language", "version", "size", "limits", "access", "runs", "failures")
ALL_COLUMNS = (*COLUMNS, "main", "dependencies", "modified", "number", "counts_are_minimum")


@dataclass(frozen=True)
class Overview:
    """The storlets; ``notes`` say what is left out."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Access:
    readers: tuple[str, ...]
    grants: Mapping[str, tuple[ContainerGrant, ...]]
    is_complete: bool = True


@dataclass(frozen=True)
class _Records:
    """The recorded runs of the last day; ``wish`` is what the account records."""

    wish: str = "none"
    runs: Mapping[str, int] | None = None
    failures: Mapping[str, int] | None = None
    is_minimum: bool = False

    def counts(self, storlet: Storlet) -> Counts:
        wish = storlet.declared.get("records", self.wish)
        if self.runs is None or self.failures is None or wish == "none":
            return Counts()
        name = storlet.name.removesuffix(operations.BUNDLE)
        runs = self.runs.get(name, 0) if wish == "all" else None
        return Counts(runs, self.failures.get(name, 0), self.is_minimum)


def overview(session: Session, name: str | None = None) -> Flow[Overview]:
    """All storlets of the account, or the one with a name.

    :raises NotThere: there is none with this name.
    """
    cluster = yield from operations.known_info(session)
    if name is not None:
        storlets = [(yield from operations.show(session, name))]
    else:
        storlets = yield from operations.list_storlets(session)
    access = yield from _access(session, cluster)
    records = yield from _records(session, cluster)
    versions = yield from together(_version(session, cluster, each) for each in storlets)
    rows = [
        _row(storlet, version, number, access, records)
        for storlet, (version, number) in zip(storlets, versions)
    ]
    notes = []
    if not access.is_complete:
        notes.append(
            f"grants of the first {MOST_CONTAINERS} containers only: storlet grants CONTAINER has"
            " those of others"
        )
    return Overview(tuple(rows), tuple(notes))


def _row(
    storlet: Storlet, version: str, number: int | None, access: _Access, records: _Records
) -> Row:
    name = storlet.name.removesuffix(operations.BUNDLE)
    limits = {key: value for key, value in storlet.declared.items() if key not in _NO_LIMITS}
    return Row(
        storlet, version, number, limits, access.readers, access.grants.get(name, ()),
        records.counts(storlet),
    )  # fmt: skip


def _version(session: Session, cluster: Info, storlet: Storlet) -> Flow[tuple[str, int | None]]:
    """The author's version and the number of a bundle; a plain storlet has none."""
    if not storlet.name.endswith(operations.BUNDLE):
        return "", None
    path = (cluster.storlet_container, storlet.name)
    call = Call("GET", path, query=(("storlet-versions", ""),))
    answer = yield from session.exchange(call, (_NOT_FOUND,))
    if answer.status == _NOT_FOUND:
        return "", None  # deleted meanwhile, or not uploaded as a bundle
    rows = [row for row in answer.document()["versions"] if row["current"]]
    return (rows[0]["version"], rows[0]["number"]) if rows else ("", None)


def _access(session: Session, cluster: Info) -> Flow[_Access]:
    """Readers and grants, as far as the caller sees them."""
    call = Call("HEAD", (cluster.storlet_container,))
    answer = yield from session.exchange(call, (_NOT_FOUND, _FORBIDDEN))
    listed = answer.headers.get("x-container-read", "").split(",")
    readers = tuple(each.strip() for each in listed if each.strip())
    query = (("format", "json"), ("limit", str(MOST_CONTAINERS + 1)))
    answer = yield from session.exchange(Call("GET", query=query), (_FORBIDDEN,))
    rows = answer.document() if answer.status == 200 else []
    grants: dict[str, list[ContainerGrant]] = {}
    containers = [row["name"] for row in rows[:MOST_CONTAINERS]]
    listed_grants = yield from together(_grants(session, name) for name in containers)
    for container, given in zip(containers, listed_grants):
        for each in given:
            grants.setdefault(each.storlet, []).append(ContainerGrant(container, each.user))
    found = {storlet: tuple(each) for storlet, each in grants.items()}
    return _Access(readers, found, len(rows) <= MOST_CONTAINERS)


def _grants(session: Session, container: str) -> Flow[Sequence[operations.Grant]]:
    try:
        found = yield from operations.grants(session, container)
    except Refused as error:
        if error.status not in (_NOT_FOUND, _FORBIDDEN):
            raise
        return []  # deleted meanwhile, or hidden by a rule
    return found


def _records(session: Session, cluster: Info) -> Flow[_Records]:
    """One page of the records of the last day; nothing for callers who may not read them."""
    if "records" not in cluster.raw:
        return _Records()
    answer = yield from session.exchange(Call("HEAD"), (_FORBIDDEN,))
    if answer.status == _FORBIDDEN:
        return _Records()
    wish = answer.headers.get(_RECORDS, "").strip().lower() or "failures"
    since = datetime.now(timezone.utc) - timedelta(hours=HOURS)
    query = (
        ("storlet-runs", ""), ("since", since.strftime("%Y-%m-%dT%H:%M:%SZ")),
        ("limit", str(MOST_RECORDS)),
    )  # fmt: skip
    answer = yield from session.exchange(Call("GET", query=query), (_FORBIDDEN,))
    rows = answer.document() if answer.status == 200 else []
    runs: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for row in rows:
        for name in {each["name"].partition("@")[0] for each in row.get("storlets", ())}:
            runs[name] += row["outcome"] != "refused"
            failures[name] += row["outcome"] == "failed"
    return _Records(wish, runs, failures, bool(answer.headers.get("x-storlet-runs-next")))
