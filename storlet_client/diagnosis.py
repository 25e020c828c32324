"""Problems of login, cluster, clock, account and storlets, each with the command to repair it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from storlet_client import operations
from storlet_client.errors import Refused, StorletsError
from storlet_client.exchange import Answer, Call, Flow
from storlet_client.operations import Info, Storlet
from storlet_client.session import Session

_NOT_FOUND = 404
#: Signed requests and ages such as --since 1h depend on the clock.
_CLOCK_SECONDS = 30


@dataclass(frozen=True)
class Check:
    """One result of the diagnosis.

    :param remedy: the command that repairs it; empty if it is well.
    """

    subject: str
    is_well: bool
    text: str
    remedy: str = ""


def diagnose(session: Session) -> Flow[list[Check]]:
    """Check login, cluster, account and storlets; ends at the first check that others depend on."""
    account = yield from session.account()
    found = [Check("login", True, account.url)]
    try:
        cluster = yield from operations.info(session)
    except StorletsError as error:
        return [*found, Check("cluster", False, str(error), "ask the operator of the cluster")]
    languages = ", ".join(f"{name} {'/'.join(v)}" for name, v in cluster.languages.items())
    api = cluster.raw.get("engine_api", "1.0")
    found.append(Check("cluster", True, f"storlets in {languages}; engine API {api}"))
    try:
        answer = yield from session.exchange(Call("HEAD"))
    except Refused as error:
        text = f"its metadata cannot be read ({error.status}): you do not own it"
        return [*found, Check("account", False, text, "ask the owner of the account")]
    found += _of_clock(answer)
    if not operations.says_enabled(answer):
        text = "not enabled for storlets"
        return [*found, Check("account", False, text, "storlet enable")]
    found.append(Check("account", True, "enabled for storlets"))
    for name in (cluster.storlet_container, cluster.dependency_container, cluster.log_container):
        answer = yield from session.exchange(Call("HEAD", (name,)), (_NOT_FOUND,))
        is_there = answer.status != _NOT_FOUND
        text = f"{answer.headers.get('x-container-object-count', 0)} objects"
        remedy = "" if is_there else "storlet enable"
        found.append(Check(f"container {name}", is_there, text if is_there else "missing", remedy))
    for storlet in (yield from operations.list_storlets(session)):
        found += _of_language(storlet, cluster) or (yield from _of_files(session, storlet, cluster))
    return found


def _of_clock(answer: Answer) -> Iterator[Check]:
    """The clock of this machine, against that of the cluster."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
    except (TypeError, ValueError):  # Python 3.9 raises the first
        return
    seconds = (datetime.now(timezone.utc) - theirs).total_seconds()
    if abs(seconds) <= _CLOCK_SECONDS:
        yield Check("clock", True, "that of the cluster")
        return
    side = "ahead of" if seconds > 0 else "behind"
    text = f"{abs(seconds):,.0f} s {side} that of the cluster"
    yield Check("clock", False, text, "timedatectl set-ntp true")


def _of_language(storlet: Storlet, cluster: Info) -> list[Check]:
    """Why the cluster has no language for a storlet."""
    versions, wanted = cluster.languages.get(storlet.language), _wanted_version(storlet)
    subject = f"storlet {storlet.name}"
    if versions is None:
        known = ", ".join(cluster.languages)
        text = f"language {storlet.language or 'unset'} is not one of {known}"
        return [
            Check(subject, False, text, f"storlet deploy {storlet.name} --main .. --language ..")
        ]
    if wanted and wanted not in {*versions, *(each.partition(".")[0] for each in versions)}:
        text = f"wants {storlet.language} {wanted}: the cluster has {', '.join(versions)}"
        remedy = (
            f"storlet deploy {storlet.name} --main {storlet.main} --language-version {versions[-1]}"
        )
        return [Check(subject, False, text, remedy)]
    return []


def _wanted_version(storlet: Storlet) -> str:
    return storlet.declared.get("language-version", "")


def _of_files(session: Session, storlet: Storlet, cluster: Info) -> Flow[list[Check]]:
    """The dependencies of a storlet that are missing."""
    found = []
    for each in storlet.dependencies:
        call = Call("HEAD", (cluster.dependency_container, each))
        answer = yield from session.exchange(call, (_NOT_FOUND,))
        if answer.status == _NOT_FOUND:
            remedy = f"storlet deploy {storlet.name} --main {storlet.main} --dependency {each}"
            text = f"dependency {each} is missing"
            found.append(Check(f"storlet {storlet.name}", False, text, remedy))
    return found
