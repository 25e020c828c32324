"""Swift's answers for a caller that rules apply to, as the decision requires them.

Each function takes Swift's answer from the :mod:`~storlet_middleware.wsgi.gate`, and returns it
pinned to the object that the rules were evaluated for, or reduced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from swift.common.swob import HTTPNotFound, Request, Response
from swift.common.utils import close_if_possible

from rules.facts import UNKNOWN
from rules.model import Passes, Rule
from storlet_middleware import names
from storlet_middleware.enforcement import listing, request_facts, sums
from storlet_middleware.enforcement.evaluation import Evaluation
from storlet_middleware.enforcement.path_rules import OF_ARCHIVED, OF_OBJECTS
from storlet_middleware.enforcement.request_facts import ObjectState
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi import gate, s3_request, swift_paths
from storlet_middleware.wsgi.answer import Answer
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


# --- the object that the rules were evaluated for -------------------------------------------------


def pin_source(evaluation: Evaluation, source: ObjectState) -> None:
    """Make Swift's copy read the object that the rules were evaluated for, or fail."""
    environ = evaluation.environ
    is_wanted = "HTTP_IF_MATCH" not in environ or source.etag in Request(environ).if_match
    environ["HTTP_IF_MATCH"] = f'"{source.etag if is_wanted and source.etag else "none"}"'


def copy_evaluated(evaluation: Evaluation, source: ObjectState) -> Answer:
    """Swift's copy of the evaluated object, under the client's conditions."""
    environ, operation = evaluation.environ, evaluation.operation
    if not source.is_plain and not _OF_THE_MANIFEST.isdisjoint(operation.query):
        return gate.ask(evaluation.app, environ, evaluation.guard)
    has_own = not _CONDITIONS_OF_412.isdisjoint(environ)
    pin_source(evaluation, source)
    answer = gate.ask(evaluation.app, environ, evaluation.guard)
    if answer.status.startswith("412"):
        if not source.facts.exists:
            close_if_possible(answer.chunks)
            raise SwiftRefusal(HTTPNotFound(request=Request(environ)))
        if not has_own:
            close_if_possible(answer.chunks)
            raise BackendFailed(_CHANGED, retry_after=1)
    return answer


def read_evaluated(evaluation: Evaluation, known_state: ObjectState) -> Answer:
    """Swift's answer; raises if it is not the object that the rules were evaluated for."""
    answer = gate.ask(evaluation.app, evaluation.environ, evaluation.guard)
    is_other = known_state.timestamp != answer.header("x-timestamp")
    # A link shows no facts of its target, and the rules were evaluated for the target.
    is_link = bool(answer.header("x-symlink-target"))
    # Answers to conditions and ranges (304, 412, 416) describe an object, too.
    describes = answer.status.startswith("2") or bool(answer.header("x-timestamp"))
    if is_other and not is_link and describes:
        close_if_possible(answer.chunks)
        if not known_state.facts.exists:
            raise SwiftRefusal(HTTPNotFound(request=Request(evaluation.environ)))
        raise BackendFailed(_CHANGED, retry_after=1)
    return answer


# --- objects that a mandatory rule covers ---------------------------------------------------------


def covered_head(evaluation: Evaluation, rule: Rule) -> Response:
    """A HEAD of a covered object: the headers that the rule names."""
    answer = gate.ask(evaluation.app, evaluation.environ, None)
    close_if_possible(answer.chunks)  # of a HEAD: at most the text of an error
    if answer.status.startswith(("401", "403")):
        raise SwiftRefusal(_without_body(evaluation, answer))
    if evaluation.guard.refused:
        raise evaluation.guard.refused[0]
    passes = (rule.passes or Passes()) if answer.status.startswith("2") else Passes()
    prefix = names.OBJECT_META.lower()
    is_s3 = s3_request.is_s3(evaluation.environ)

    def allows(key: str) -> bool:
        if key.startswith(prefix):
            return passes.allows_metadata(key.removeprefix(prefix))
        return passes.allows_header(key) or (is_s3 and key == _S3_ACL)

    response = _without_body(evaluation, gate.reduced(answer, allows))
    response.headers[names.RULE] = rule.name
    return response


def _without_body(evaluation: Evaluation, answer: Answer) -> Response:
    response = Response(status=answer.status, request=Request(evaluation.environ))
    response.headers.clear()
    response.headers.update(answer.headers)
    return response


def must_filter_listing(evaluation: Evaluation) -> bool:
    """Whether parts of a container's or account's GET or HEAD must be hidden from the caller."""
    loaded = evaluation.loaded
    return (
        loaded is not None
        and loaded.has_mandatory
        and evaluation.path_rules.may_cover(evaluation.subject.account, None, None) is not None
    )


def filter_listing(evaluation: Evaluation, app: WSGIApp) -> Answer:
    """The answer of ``app`` with names and dates of covered objects, and without sums that include
    them.
    """
    container = evaluation.subject.container
    answer, is_get = gate.ask(app, evaluation.environ, evaluation.guard), evaluation.method == "GET"
    if _sums_include_covered(evaluation, answer):
        answer = gate.reduced(listing.zero_byte_sums(answer), listing.is_of_listing)
    if not is_get:
        return answer
    if container is None:
        return listing.zero_container_bytes(answer)
    return _hide_covered_entries(evaluation, answer, container)


def _sums_include_covered(evaluation: Evaluation, answer: Answer) -> bool:
    """Whether the sums in a listing's ``answer`` include covered objects; closes the answer on
    errors.
    """
    try:
        rule = sums.covering_rule(
            evaluation.app, evaluation.environ, evaluation.path_rules, evaluation.subject
        )
    except BaseException:
        close_if_possible(answer.chunks)
        raise
    return rule is not None


def _hide_covered_entries(evaluation: Evaluation, answer: Answer, container: str) -> Answer:
    loaded = evaluation.loaded
    if loaded is None:
        raise AssertionError("the account has rules")
    facts = request_facts.of_request(evaluation.operation.environ, "GET", container, "")
    asked = dataclasses.replace(facts, holder=evaluation.evaluator.holder())
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

    return listing.hide_covered(answer, is_covered)
