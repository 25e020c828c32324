"""Storlets that cannot run: their language, engine and dependencies, and code that did not load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from storlet_client import operations
from storlet_client.bundle import manifest
from storlet_client.diagnosis.check import Check, command
from storlet_client.errors import NotThere, Refused
from storlet_client.exchange import Call, Flow, together
from storlet_client.operations import BUNDLE, Info, Storlet, name_of_runs
from storlet_client.session import Session

_FORBIDDEN, _NOT_FOUND = 403, 404
_LOAD = "storlet.load"
_HOURS = 24
#: Records of code that did not load; a storlet that fails often hides others beyond these.
_MOST_RECORDS = 1000

Record = Mapping[str, Any]


def checks_of(session: Session, cluster: Info, deployed: Sequence[Storlet]) -> Flow[list[Check]]:
    """The problems of all storlets, one storlet after the other."""
    refusals = yield from _refusals(session, cluster)
    found = yield from together(
        _of_storlet(session, cluster, each, refusals.get(name_of_runs(each.name)))
        for each in deployed
    )
    return [check for checks in found for check in checks]


def _of_storlet(
    session: Session, cluster: Info, storlet: Storlet, record: Record | None
) -> Flow[list[Check]]:
    """The problems of one storlet.

    :param record: of its last run whose code did not load.
    """
    found = _of_language(storlet, cluster)
    found += yield from _of_files(session, storlet, cluster)
    unfit = yield from _of_engine(session, storlet, cluster)
    found += unfit
    # With another engine, each run is refused before the code is loaded.
    if record is not None and not unfit:
        found += yield from _of_code(session, storlet, record)
    return found


def _of_language(storlet: Storlet, cluster: Info) -> list[Check]:
    """Why the cluster has no language for a storlet."""
    versions, wanted = cluster.languages.get(storlet.language), _wanted_version(storlet)
    subject = f"storlet {storlet.name}"
    if versions is None:
        known = ", ".join(cluster.languages)
        text = f"language {storlet.language or 'unset'} is not one of {known}"
        remedy = _deploy(storlet, "--language", next(iter(cluster.languages), "LANGUAGE"))
        return [Check(subject, False, text, remedy)]
    if wanted and wanted not in {*versions, *(each.partition(".")[0] for each in versions)}:
        text = f"requires {storlet.language} {wanted}: the cluster has {', '.join(versions)}"
        remedy = _deploy(storlet, "--language-version", versions[-1])
        return [Check(subject, False, text, remedy)]
    return []


def _wanted_version(storlet: Storlet) -> str:
    return storlet.declared.get("language-version", "")


def _of_files(session: Session, storlet: Storlet, cluster: Info) -> Flow[list[Check]]:
    """The dependencies of a storlet that are missing."""
    found = []
    for each in storlet.dependencies:
        call = Call("HEAD", (cluster.dependency_container, each))
        answer = yield from session.exchange(call, (_FORBIDDEN, _NOT_FOUND))
        if answer.status == _NOT_FOUND:
            text = f"dependency {each} is missing"
            remedy = _deploy(storlet, "--dependency", each)
            found.append(Check(f"storlet {storlet.name}", False, text, remedy))
    return found


def _of_engine(session: Session, storlet: Storlet, cluster: Info) -> Flow[list[Check]]:
    """A bundle that works with other versions of the engine API than the cluster has.

    Its upload was accepted: the cluster had another release then.
    """
    if not storlet.name.endswith(BUNDLE) or "bundles" not in cluster.raw:
        return []
    try:
        wanted = yield from operations.engine_range(session, storlet.name)
    except NotThere:
        return []  # deleted meanwhile, or not uploaded as a bundle
    except Refused as error:
        if error.status != _FORBIDDEN:
            raise
        return []
    if manifest.fits_engine(wanted, cluster.engine):
        return []
    text = f"works with engine API {wanted}: the cluster has {cluster.engine}"
    remedy = (
        f"test it with engine API {cluster.engine}, correct engine in storlet.toml, then:"
        " storlet build; storlet deploy BUNDLE"
    )
    return [Check(f"storlet {storlet.name}", False, text, remedy)]


def _refusals(session: Session, cluster: Info) -> Flow[dict[str, Record]]:
    """The newest record of a run whose code did not load, by the name of the storlet."""
    if "records" not in cluster.raw:
        return {}
    since = datetime.now(timezone.utc) - timedelta(hours=_HOURS)
    selection = {"outcome": _LOAD, "since": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
    try:
        records = yield from operations.runs(session, selection, _MOST_RECORDS)
    except Refused as error:
        if error.status not in (_FORBIDDEN, _NOT_FOUND):
            raise
        return {}
    newest: dict[str, Record] = {}
    for record in records:
        name = _failed_part(record).get("name", "").partition("@")[0]
        newest.setdefault(name_of_runs(name), record)
    return newest


def _failed_part(record: Record) -> Mapping[str, str]:
    """The storlet of a run that did not load; of a run of several, the one that failed."""
    ran: Sequence[Mapping[str, str]] = record.get("storlets", ())
    step = int(record.get("failed_step") or 1)
    return ran[step - 1] if 0 < step <= len(ran) else {}


def _of_code(session: Session, storlet: Storlet, record: Record) -> Flow[list[Check]]:
    """A failure to load, unless the code was replaced since."""
    name, failed = name_of_runs(storlet.name), _failed_part(record)
    if storlet.name.endswith(BUNDLE):
        try:
            kept = yield from operations.versions(session, storlet.name)
        except NotThere:
            return []  # deleted meanwhile, or not uploaded as a bundle
        current = next((each for each in kept if each.current), None)
        if current is None or current.sha256 != failed.get("sha256"):
            return []
        try:
            before = operations.version_before(name, kept)
            remedy = command("storlet", "rollback", name, str(before.number))
        except NotThere:
            remedy = _deploy(storlet)
    elif _is_older(record, storlet):
        return []
    else:
        remedy = _deploy(storlet)
    told = " ".join(str(record.get("message", "")).split())
    text = f"its code does not load: {told} (storlet show-run {record.get('id', '')})"
    return [Check(f"storlet {storlet.name}", False, text, remedy)]


def _is_older(record: Record, storlet: Storlet) -> bool:
    """Whether the run was before the upload.

    Swift rounds ``Last-Modified`` up to a second, so a run in the second before it may be of the
    new code.
    """
    try:
        uploaded = datetime.strptime(storlet.modified, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - UTC
    except ValueError:
        return False
    since = uploaded - timedelta(seconds=1)
    return str(record.get("time", "")).replace("T", " ") < str(since)


def _deploy(storlet: Storlet, *more: str) -> str:
    """The command that replaces the code; a bundle has its declarations in its project."""
    if storlet.name.endswith(BUNDLE):
        return "correct the project, then: storlet build; storlet deploy BUNDLE"
    return command("storlet", "deploy", storlet.name, "--main", storlet.main or "MAIN", *more)
