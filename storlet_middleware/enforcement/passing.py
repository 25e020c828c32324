"""Checks and filters Swift's answers for a caller that rules apply to.

Each function returns Swift's answer checked, pinned to the object that the rules were evaluated
for, or reduced.  Every answer of Swift to an operation with rules passes through one of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Final

from swift.common.swob import Request, Response, reiterate
from swift.common.utils import close_if_possible, drain_and_close

from rules.facts import UNKNOWN
from rules.model import Passes, Rule
from storlet_middleware import names
from storlet_middleware.enforcement import listing, request_facts
from storlet_middleware.enforcement.inquiry import Inquiry
from storlet_middleware.enforcement.judge import OF_ARCHIVED, OF_OBJECTS
from storlet_middleware.enforcement.request_facts import ObjectState
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi import s3_request, swift_paths
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.context import RulesCheck
from storlet_middleware.wsgi.subrequest import SwiftRefusal

WSGIApp = Callable[..., Any]

#: Queries with which Swift answers with the manifest or the link itself.
_OF_THE_MANIFEST: Final = frozenset({"multipart-manifest", "symlink"})
#: The owner and the grants of an object where ``s3_acl = yes``: ``s3api`` authorizes by a HEAD's
#: answer and sends none of it to its client.
_S3_ACL: Final = "x-object-sysmeta-s3api-acl"
#: Conditions of a client that Swift answers with 412 in a copy.
_CONDITIONS_OF_412: Final = frozenset(
    {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IF_UNMODIFIED_SINCE"}
)
_CHANGED: Final = "the object changed while its rules were being evaluated; retry"


def checked(guard: RulesCheck, app: WSGIApp, environ: dict[str, Any]) -> Answer:
    """The answer of ``app``; raises if the rules of any account refuse it."""
    return _checked(guard, *Request(environ).call_application(app))


def stream_checked(
    guard: RulesCheck, app: WSGIApp, environ: dict[str, Any], start_response: Callable[..., Any]
) -> Iterable[bytes]:
    """The same as a WSGI application; answers without facts of other objects, nearly all, are not
    delayed.
    """
    held: tuple[str, list[tuple[str, str]]] | tuple[()] | None = None

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        nonlocal held
        # An application may call it again with an error; the last call counts.
        if not guard.must_check(headers):
            held = ()
            return start_response(status, headers, *more)
        held = status, headers
        return None  # instead of the write function, which Swift does not use

    chunks: Iterable[bytes] = app(environ, start)
    if held is None:  # the application has not started
        chunks = reiterate(chunks)
    if held:
        return _checked(guard, *held, chunks)(environ, start_response)
    if guard.refused:  # after the answer had begun
        close_if_possible(chunks)
        raise guard.refused[0]
    return chunks


def _checked(
    guard: RulesCheck, status: str, headers: list[tuple[str, str]], chunks: Iterable[bytes]
) -> Answer:
    try:
        guard.check_answer(headers)
    except BaseException:
        close_if_possible(chunks)
        raise
    return Answer(status, headers, guard.break_if_refused(headers, chunks))


# --- the object that the rules were evaluated for -------------------------------------------------


def pin_source(inquiry: Inquiry, source: ObjectState) -> None:
    """Make Swift's copy read the object that the rules were evaluated for, or fail."""
    environ = inquiry.environ
    if "HTTP_IF_MATCH" not in environ or source.etag in Request(environ).if_match:
        environ["HTTP_IF_MATCH"] = f'"{source.etag or "none"}"'


def copy_evaluated(inquiry: Inquiry, source: ObjectState) -> Answer:
    """Swift's copy of the evaluated object, under the client's conditions."""
    environ, operation = inquiry.environ, inquiry.operation
    if not source.is_plain and not _OF_THE_MANIFEST.isdisjoint(operation.query):
        return checked(inquiry.guard, inquiry.app, environ)
    has_own = not _CONDITIONS_OF_412.isdisjoint(environ)
    pin_source(inquiry, source)
    answer = checked(inquiry.guard, inquiry.app, environ)
    if not has_own and answer.status.startswith("412"):
        close_if_possible(answer.chunks)
        raise BackendFailed(_CHANGED, retry_after=1)
    return answer


def read_evaluated(inquiry: Inquiry, known_state: ObjectState) -> Answer:
    """Swift's answer; raises if it is not the object that the rules were evaluated for."""
    answer = checked(inquiry.guard, inquiry.app, inquiry.environ)
    is_other = known_state.timestamp != answer.header("x-timestamp")
    # A link shows no facts of its target, and the rules were evaluated for the target.
    is_link = bool(answer.header("x-symlink-target"))
    if is_other and not is_link and answer.status.startswith("2"):
        close_if_possible(answer.chunks)
        raise BackendFailed(_CHANGED, retry_after=1)
    return answer


# --- objects that a mandatory rule covers ---------------------------------------------------------


def covered_head(inquiry: Inquiry, rule: Rule) -> Response:
    """A HEAD of a covered object: the headers that the rule names."""
    answer = Request(inquiry.environ).get_response(inquiry.app)
    drain_and_close(answer)
    if answer.status_int in (401, 403):
        raise SwiftRefusal(answer)
    if inquiry.guard.refused:
        raise inquiry.guard.refused[0]
    response = Response(status=answer.status_int, request=Request(inquiry.environ))
    response.headers.clear()
    response.headers[names.RULE] = rule.name
    if answer.status_int // 100 == 2:
        passes = rule.passes or Passes()
        prefix = names.OBJECT_META.lower()
        for key, value in answer.headers.items():
            plain = key.lower().removeprefix(prefix)
            is_metadata = key.lower().startswith(prefix)
            if key.lower() == _S3_ACL and s3_request.is_s3(inquiry.environ):
                response.headers[key] = value
            if passes.allows_metadata(plain) if is_metadata else passes.allows_header(key):
                response.headers[key] = value
    return response


def must_filter_listing(inquiry: Inquiry) -> bool:
    """Whether parts of a container's or account's GET or HEAD must be hidden from the caller."""
    loaded = inquiry.loaded
    return (
        loaded is not None
        and loaded.has_mandatory
        and inquiry.judge.may_cover(inquiry.subject.account, None, None) is not None
    )


def filter_listing(inquiry: Inquiry, app: WSGIApp) -> WSGIApp:
    """The answer of ``app`` with names and dates of covered objects, and without sums that include
    them.
    """
    account, container = inquiry.subject.account, inquiry.subject.container
    environ, is_get = inquiry.environ, inquiry.method == "GET"
    if container is None:
        answer = listing.zero_byte_sums(app, environ)
        return listing.zero_container_bytes(answer) if is_get else answer
    if inquiry.judge.may_cover(account, container, None) is not None:
        app = listing.zero_byte_sums(app, environ)
    return _hide_covered_entries(inquiry, app, container) if is_get else app


def _hide_covered_entries(inquiry: Inquiry, app: WSGIApp, container: str) -> Answer:
    loaded = inquiry.loaded
    if loaded is None:
        raise AssertionError("the account has rules")
    facts = request_facts.of_request(inquiry.environ, "GET", container, "")
    asked = dataclasses.replace(facts, holder=inquiry.evaluator.holder())
    compiled = loaded.compiled
    here = compiled.narrowed(asked, OF_OBJECTS)
    anywhere = compiled.narrowed(
        dataclasses.replace(asked, holder=UNKNOWN), OF_OBJECTS | {"container"}
    )

    def is_covered(entry: listing.Entry) -> bool:
        stored = request_facts.listed_facts(entry.content_type, entry.size_bytes)
        facts = dataclasses.replace(asked, object=entry.name, stored=stored)
        rules = anywhere if "container" in entry.unknown else here
        if compiled.may_cover(facts, entry.unknown, rules) is not None:
            return True
        archived = swift_paths.archived_name(entry.name)
        if archived is not None and compiled.may_cover(
            dataclasses.replace(facts, object=archived), OF_ARCHIVED, anywhere
        ):
            return True
        # These entries contain facts of other objects: of segments, or of the end of a chain of
        # links.
        return entry.is_large or entry.link_target is not None

    return listing.hide_covered(app, inquiry.environ, is_covered)
