"""Login, cluster, client, clock and account; the order of all checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from storlet_client import operations
from storlet_client.diagnosis import grants, places, storlets
from storlet_client.diagnosis.check import OPERATOR, OWNER, Check
from storlet_client.errors import StorletsError
from storlet_client.exchange import Answer, Call, Flow
from storlet_client.operations import Info
from storlet_client.session import Session

#: The major version of the engine API that the bundles of this client are for.
_ENGINE = "1"
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
#: Signed requests and ages such as --since 1h depend on the clock.
_CLOCK_SECONDS = 30
#: The values of the account's setting for the library.
_CALLERS = {
    "all": "all callers, also without a login",
    "users": "callers with a login",
    "owners": "owners of the account",
    "none": "no caller",
}
#: The values of the account's setting for records.
_RECORDED = {"all": "of all runs", "failures": "of failed runs", "none": "of no runs"}
#: Features that a cluster of an older release lacks, by the name in /info.
_FEATURES = {
    "bundles": "bundles",
    "records": "records of runs",
    "upload_check": "checks of uploads",
    "library": "storlets of the library",
}


def diagnose(session: Session, named: Sequence[str] = ()) -> Flow[list[Check]]:
    """Check login, cluster, account, storlets and grants; a check that cannot be made is left out.

    :param named: containers, or objects as ``container/object``, that are checked, too.
    """
    account = yield from session.account()
    found = [Check("login", True, account.url)]
    try:
        cluster = yield from operations.info(session)
    except StorletsError as error:
        return [*found, Check("cluster", False, str(error), OPERATOR)]
    found += _of_cluster(cluster)
    answer = yield from session.exchange(Call("HEAD"), (_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND))
    if answer.status == _UNAUTHORIZED:
        text = f"the token is not valid for {account.url}"
        return [*found, Check("account", False, text, "log in again: storlet --help has the ways")]
    found += _of_clock(answer)
    if answer.status == _NOT_FOUND:
        return [*found, Check("account", False, "it does not exist", OPERATOR)]
    is_owner = answer.status != _FORBIDDEN
    if not is_owner:
        found.append(
            Check("account", False, "its metadata cannot be read: you do not own it", OWNER)
        )
        found += yield from places.of_code(session, cluster.storlet_container)
    elif not operations.says_enabled(answer):
        found.append(Check("account", False, "not enabled for storlets", "storlet enable"))
    else:
        found.append(Check("account", True, "enabled for storlets"))
        found += [*_of_records(answer, cluster), *_of_library(answer, cluster)]
        found += yield from _of_containers(session, cluster)
        deployed = yield from operations.list_storlets(session)
        found += yield from storlets.checks_of(session, cluster, deployed)
        found += yield from grants.checks_of(session, cluster, deployed)
    for each in named:
        checks = yield from places.checks_of(session, each, is_owner=is_owner)
        # Several objects may be in one container.
        found += [check for check in checks if check not in found]
    return found


def _of_records(account: Answer, cluster: Info) -> Iterator[Check]:
    """The runs that are recorded; nothing where the cluster has no records."""
    if "records" in cluster.raw:
        setting = account.headers.get("x-account-meta-storlet-records", "").strip().lower()
        yield Check("records", True, _RECORDED.get(setting, _RECORDED["failures"]))


def _of_library(account: Answer, cluster: Info) -> Iterator[Check]:
    """The callers that may run the library in the account; nothing where the cluster has none."""
    default = cluster.raw.get("library_callers")
    if default:
        setting = account.headers.get("x-account-meta-storlet-library") or default
        yield Check("library", True, f"std: storlets for {_CALLERS.get(setting, setting)}")


def _of_cluster(cluster: Info) -> Iterator[Check]:
    """Languages, the API of the engine, features, and the self-test of the node that answered."""
    languages = ", ".join(f"{name} {'/'.join(v)}" for name, v in cluster.languages.items())
    api = cluster.engine
    yield Check("cluster", True, f"storlets in {languages}; engine API {api}")
    if api.partition(".")[0] != _ENGINE:
        text = f"it is for engine API {_ENGINE}, and the cluster has {api}"
        remedy = "pip install --upgrade storlet-client"
        yield Check("client", False, text, remedy)
    lacking = [text for name, text in _FEATURES.items() if name not in cluster.raw]
    if lacking:
        text = f"its release is older than this client: it has no {', no '.join(lacking)}"
        yield Check("release", True, text)
    for kind, state in (cluster.raw.get("self_test") or {}).items():
        if state == "fail":
            text = f"the self-test of class {kind} fails on a proxy: it runs no storlets there"
            yield Check("sandboxes", False, text, OPERATOR)


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


def _of_containers(session: Session, cluster: Info) -> Flow[list[Check]]:
    """The containers of storlets, dependencies and logs."""
    found = []
    for name in (cluster.storlet_container, cluster.dependency_container, cluster.log_container):
        answer = yield from session.exchange(Call("HEAD", (name,)), (_FORBIDDEN, _NOT_FOUND))
        subject = f"container {name}"
        if answer.status == _NOT_FOUND:
            found.append(Check(subject, False, "missing", "storlet enable"))
        elif answer.status == _FORBIDDEN:
            found.append(places.refused(subject, answer, "HEAD", name))
        else:
            text = f"{answer.headers.get('x-container-object-count', 0)} objects"
            found.append(Check(subject, True, text))
    return found
