"""Containers and objects that the caller names: whether they exist and may be read."""

from __future__ import annotations

from storlet_client.diagnosis.check import OWNER, Check, command, nearest, suggestion
from storlet_client.exchange import Answer, Call, Flow
from storlet_client.session import Session

_FORBIDDEN, _NOT_FOUND = 403, 404
_REFUSALS = (_FORBIDDEN, _NOT_FOUND)
_RULE = "x-storlet-rule"
#: Names that are compared with that of a missing object, from the same start.
_MOST_NAMES = 1000
_BEGIN = 2


def checks_of(session: Session, place: str, *, is_owner: bool) -> Flow[list[Check]]:
    """A container, and an object in it if ``place`` is ``container/object``."""
    container, _, name = place.strip("/").partition("/")
    if not container:
        remedy = command("storlet", "doctor", "CONTAINER/OBJECT")
        return [Check(f"place {place!r}", False, "has no name of a container", remedy)]
    subject = f"container {container}"
    answer = yield from session.exchange(Call("HEAD", (container,)), _REFUSALS)
    if answer.status == _NOT_FOUND:
        near = nearest(container, (yield from _names(session, (), "")) if is_owner else ())
        target = f"{container}/{name or 'OBJECT'}"
        return [Check(subject, False, f"missing{suggestion(near)}", _upload(target))]
    found = []
    if answer.status == _FORBIDDEN:
        found.append(refused(subject, answer, "GET", f"{container}/{name or 'OBJECT'}"))
    else:
        count = answer.headers.get("x-container-object-count", "0")
        found.append(Check(subject, True, f"you may read it; {count} objects"))
    if name:
        found += yield from _of_object(session, container, name, may_list=not found[0].remedy)
    return found


def _of_object(session: Session, container: str, name: str, *, may_list: bool) -> Flow[list[Check]]:
    path = f"{container}/{name}"
    subject = f"object {path}"
    answer = yield from session.exchange(Call("HEAD", (container, name)), _REFUSALS)
    if answer.status == _NOT_FOUND:
        known = (yield from _names(session, (container,), name[:_BEGIN])) if may_list else ()
        near = nearest(name, known)
        return [Check(subject, False, f"missing{suggestion(near)}", _upload(path))]
    if answer.status == _FORBIDDEN:
        return [refused(subject, answer, "GET", path)] if may_list else []
    size = int(answer.headers.get("content-length") or 0)
    return [Check(subject, True, f"you may read it; {size:,} bytes")]


def of_code(session: Session, container: str) -> Flow[list[Check]]:
    """Whether a caller who does not own the account may run its storlets."""
    answer = yield from session.exchange(Call("HEAD", (container,)), _REFUSALS)
    subject = f"container {container}"
    if answer.status not in _REFUSALS:
        return [Check(subject, True, "you may run its storlets")]
    if answer.headers.get(_RULE):
        return [refused(subject, answer, "HEAD", f"{container}/STORLET")]
    remedy = f"{OWNER} for: {_acl(container)}"
    return [Check(subject, False, "you may not run its storlets", remedy)]


def refused(subject: str, answer: Answer, method: str, path: str) -> Check:
    """A container or an object that the caller may not read."""
    rule = answer.headers.get(_RULE)
    if rule:
        remedy = command("storlet", "rules", "decide", method, path)
        return Check(subject, False, f"rule {rule} refuses the request", remedy)
    container = path.partition("/")[0]
    grant = command("storlet", "grant", container, "USER", "STORLET")
    text = "you may not read it, except through a storlet that you have a grant for"
    return Check(subject, False, text, f"{OWNER} for: {_acl(container)}, or: {grant}")


def _acl(container: str) -> str:
    return command("swift", "post", "--read-acl", "USER", container)


def _names(session: Session, path: tuple[str, ...], prefix: str) -> Flow[list[str]]:
    """Names of the account or of a container, the first ones only."""
    query = (("format", "json"), ("limit", str(_MOST_NAMES)), ("prefix", prefix))
    answer = yield from session.exchange(Call("GET", path, query=query), _REFUSALS)
    rows = answer.document() if answer.status == 200 else []
    return [row["name"] for row in rows if "name" in row]


def _upload(path: str) -> str:
    return command("storlet", "upload", "FILE", path)
