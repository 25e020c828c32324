"""Grants without an effect: their storlet does not exist, or their user may not read storlets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storlet_client import operations
from storlet_client.diagnosis.check import Check, command, nearest, suggestion
from storlet_client.errors import Refused
from storlet_client.exchange import Call, Flow, together
from storlet_client.operations import LIBRARY, Grant, Info, Storlet, name_of_runs
from storlet_client.session import Session

#: Grants are properties of containers: this many are read, with one request each.
MOST_CONTAINERS = 100
_FORBIDDEN, _NOT_FOUND = 403, 404


def checks_of(session: Session, cluster: Info, deployed: Sequence[Storlet]) -> Flow[list[Check]]:
    """The problems of the grants of the first containers."""
    query = (("format", "json"), ("limit", str(MOST_CONTAINERS + 1)))
    answer = yield from session.exchange(Call("GET", query=query), (_FORBIDDEN, _NOT_FOUND))
    rows = [row for row in answer.document() if "name" in row] if answer.status == 200 else []
    code = yield from session.exchange(
        Call("HEAD", (cluster.storlet_container,)), (_FORBIDDEN, _NOT_FOUND)
    )
    readers = _words(code.headers.get("x-container-read", ""))
    names = {name_of_runs(each.name) for each in deployed}
    names |= set(cluster.raw.get("library") or {})
    containers = [row["name"] for row in rows[:MOST_CONTAINERS]]
    found_grants = yield from together(_grants(session, name) for name in containers)
    given = [(name, each) for name, grants in zip(containers, found_grants) for each in grants]
    # One command for all: it replaces the list, and so would undo that for another user.
    missing = [each.user for _, each in given if _lacks_code(each, readers)]
    listed = ",".join(dict.fromkeys([*readers, *missing]))
    remedy = command("swift", "post", "--read-acl", listed, cluster.storlet_container)
    found: list[Check] = []
    for container, grant in given:
        found += _of_storlet(container, grant, names)
        if _lacks_code(grant, readers):
            text = f"may not read container {cluster.storlet_container}, which has the storlets"
            fault = Check(f"grant on {container}", False, f"{grant.user} {text}", remedy)
            # A user may have several grants on a container.
            found += [] if fault in found else [fault]
    if len(rows) > MOST_CONTAINERS:
        text = f"those of the first {MOST_CONTAINERS} containers only were checked"
        found.append(Check("grants", True, text))
    return found


def _grants(session: Session, container: str) -> Flow[list[Grant]]:
    try:
        return (yield from operations.grants(session, container))
    except Refused as error:
        if error.status not in (_FORBIDDEN, _NOT_FOUND):
            raise
        return []  # deleted meanwhile, or hidden by a rule


def _of_storlet(container: str, grant: Grant, names: set[str]) -> Iterator[Check]:
    """The storlet of a grant does not exist."""
    if grant.storlet in names:
        return
    near = nearest(name_of_runs(grant.storlet), names)
    text = f"{grant.user} through {grant.storlet}, which does not exist{suggestion(near)}"
    words = ("grant", container, grant.user, near) if near else (
        "revoke", container, grant.user, grant.storlet,
    )  # fmt: skip
    yield Check(f"grant on {container}", False, text, command("storlet", *words))


def _lacks_code(grant: Grant, readers: Sequence[str]) -> bool:
    """Whether the user of a grant may not read the container with the storlets."""
    return not (grant.storlet.startswith(LIBRARY) or _may_read(grant.user, readers))


def _may_read(user: str, readers: Sequence[str]) -> bool:
    """Whether an ACL covers the user, as far as names show.

    With Keystone, ACLs have ids and roles: only an empty list is certain.
    """
    account, colon, _ = user.rpartition(":")
    if not readers:
        return False
    if not colon:
        return True
    known = {user, account, "*:*", f"{account}:*", ".r:*"}
    has_unknown = any(":" not in each and each != account for each in readers)
    return has_unknown or bool(known & set(readers))


def _words(listed: str) -> list[str]:
    return [each.strip() for each in listed.split(",") if each.strip()]
