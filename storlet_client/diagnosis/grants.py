"""Grants without an effect: their storlet does not exist, or their user may not read storlets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storlet_client import operations
from storlet_client.diagnosis.check import Check, command, nearest, suggestion
from storlet_client.errors import Refused
from storlet_client.exchange import Call, Flow
from storlet_client.operations import BUNDLE, LIBRARY, Grant, Info, Storlet
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
    names = {name for each in deployed for name in (each.name, each.name.removesuffix(BUNDLE))}
    names |= set(cluster.raw.get("library") or {})
    found: list[Check] = []
    for row in rows[:MOST_CONTAINERS]:
        for grant in (yield from _grants(session, row["name"])):
            found += _of_storlet(row["name"], grant, names)
            # A user may have several grants on a container.
            faults = _of_user(row["name"], grant, readers, cluster.storlet_container)
            found += [each for each in faults if each not in found]
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
    near = nearest(grant.storlet, names)
    text = f"{grant.user} through {grant.storlet}, which does not exist{suggestion(near)}"
    words = ("grant", container, grant.user, near) if near else (
        "revoke", container, grant.user, grant.storlet,
    )  # fmt: skip
    yield Check(f"grant on {container}", False, text, command("storlet", *words))


def _of_user(
    container: str, grant: Grant, readers: Sequence[str], code_container: str
) -> Iterator[Check]:
    """The user of a grant may not read the container with the storlets."""
    if grant.storlet.startswith(LIBRARY) or _may_read(grant.user, readers):
        return
    text = f"{grant.user} may not read container {code_container}, which has the storlets"
    listed = ",".join([*readers, grant.user])
    remedy = command("swift", "post", "--read-acl", listed, code_container)
    yield Check(f"grant on {container}", False, text, remedy)


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
