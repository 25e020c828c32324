"""Refuses operations that would bypass a rule.

Each function returns, or raises :class:`~storlet_middleware.errors.RuleRefused` with the rule's
name.  Swift's own refusal takes precedence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from swift.common.storage_policy import POLICIES
from swift.common.swob import HTTPPreconditionFailed, Request
from swift.common.utils import config_true_value

from rules.model import Deny, Rule
from storlet_middleware.enforcement import request_facts, sums
from storlet_middleware.enforcement.evaluation import READS, Evaluation
from storlet_middleware.enforcement.write_decisions import WriteDecisions
from storlet_middleware.errors import BadRequest, RuleRefused
from storlet_middleware.wsgi import storlet_request, swift_paths
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.swift_paths import SwiftPath, origins

#: Queries for a part of the object, or for its stored form.
_QUERIES: Final = ("multipart-manifest", "symlink", "part-number")
_RANGES: Final = ("HTTP_RANGE", "HTTP_X_STORLET_RANGE")
#: Options of Swift's copy that a run does not support.
_COPY_OPTIONS: Final = ("HTTP_X_FRESH_METADATA",)
_EXPIRY: Final = ("HTTP_X_DELETE_AT", "HTTP_X_DELETE_AFTER")
#: A DELETE only if the object expires at this time; Swift's own expirer sends it.
_IF_EXPIRY: Final = "HTTP_X_IF_DELETE_AT"
_QUOTAS: Final = (
    "X-Container-Meta-Quota-Bytes", "X-Account-Meta-Quota-Bytes", "X-Account-Quota-Bytes",
)  # fmt: skip
#: Settings that move a container's objects to another container or cluster, with other rules.
_MOVING_HEADERS: Final = ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To")
_LINKS: Final = ("HTTP_X_OBJECT_MANIFEST", "HTTP_X_SYMLINK_TARGET")


def require_parsed_copy(evaluation: Evaluation) -> None:
    """Refuse, as Swift does, a copy whose other object cannot be parsed."""
    if evaluation.operation.fault:
        raise HTTPPreconditionFailed(
            body=evaluation.operation.fault, request=Request(evaluation.environ)
        )


def require_not_denied(evaluation: Evaluation, *rules: Rule | None) -> None:
    for rule in rules:
        if rule is not None and isinstance(rule.action, Deny):
            raise evaluation.refusal(rule.name, rule.action.message)


def require_allowed_outputs(evaluation: Evaluation) -> None:
    """Refuse further outputs of a client's storlet where a rule may deny what is stored, or may
    require a storlet for it.
    """
    operation = evaluation.operation
    if not operation.runs_storlet or evaluation.loaded is None:
        return
    outputs, _ = storlet_request.outputs_of(operation)  # faults are reported later
    own = operation.path
    for output in outputs:
        place = SwiftPath(own.version, own.account, output.container, output.name)
        refused = evaluation.path_rules.output_refusal(place)
        if refused is not None:
            evaluation.require_allowed("PUT", place)
            rule, message = refused
            raise RuleRefused(rule, f"output /{output.container}/{output.name}: {message}")


def require_whole_object(evaluation: Evaluation, rule: Rule) -> None:
    """Refuse requests for a part of the object, for its stored form, or with conditions, which
    confirm guesses.
    """
    environ = evaluation.environ
    if not evaluation.is_object:
        return
    if any(key in environ for key in _RANGES):
        text = "the storlet works on whole objects: retry without Range"
        raise evaluation.refusal(rule.name, text)
    if evaluation.operation.conditions:
        text = "conditions (If-*) would reveal facts of the object itself: retry without them"
        raise evaluation.refusal(rule.name, text)
    # A HEAD of a link reveals only that its target exists; S3's DELETE needs it.
    given = set(evaluation.operation.query) - (
        {"symlink"} if evaluation.method == "HEAD" else set()
    )
    queries = [name for name in _QUERIES if name in given]
    if queries:
        text = (
            f"{', '.join(queries)} in the query requests the stored form of the object:"
            " retry without it"
        )
        raise evaluation.refusal(rule.name, text)
    if evaluation.copy_target is not None:
        if evaluation.copy_target.account != evaluation.subject.account:
            raise evaluation.refusal(
                rule.name, "the object cannot be copied to or from another account"
            )
        if any(config_true_value(environ.get(key, "false")) for key in _COPY_OPTIONS):
            raise evaluation.refusal(rule.name, "the object cannot be copied with X-Fresh-Metadata")


def require_whole_copy(evaluation: Evaluation, rule: str) -> None:
    """Refuse to copy a range where storlets run: they work on whole objects, so the copy would not
    be the requested range.
    """
    if evaluation.copy_target is not None and "HTTP_RANGE" in evaluation.environ:
        raise evaluation.refusal(
            rule, "a range cannot be copied where storlets run: retry without Range"
        )


def require_no_later_delete(evaluation: Evaluation) -> None:
    """Refuse an expiry, or an asynchronous deletion of segments, of an object whose deletion a rule
    denies.
    """
    environ, query = evaluation.environ, evaluation.operation.query
    if evaluation.method == "DELETE":
        # Swift puts the segments into the queue of its expirer without any authorization.
        is_async = query.get("multipart-manifest") == "delete" and "async" in query
        if is_async and evaluation.loaded is not None and evaluation.loaded.has_denials:
            raise BadRequest(
                "segments cannot be deleted with async in an account whose rules deny requests:"
                " retry without async"
            )
        return
    if not any(environ.get(key) for key in _EXPIRY):
        return
    written = evaluation.copy_target
    if written is None and evaluation.method in ("PUT", "POST"):
        written = evaluation.subject
    if written is None or written.name is None:
        return
    denial = _denial_of_deletion(evaluation, written)
    if denial is not None:
        rule, message = denial
        raise evaluation.refusal(rule, f"an expiry deletes the object: {message}")


def require_plain_deletion(evaluation: Evaluation) -> None:
    """Refuse a deletion of a covered object whose answer would depend on the object.

    With the segments that its manifest names, the answer shows whether the object is a static large
    object, and of how many segments.  With ``X-If-Delete-At`` it confirms a guess of the object's
    expiry, and a wrong guess deletes nothing.
    """
    subject, operation = evaluation.subject, evaluation.operation
    if evaluation.method != "DELETE" or subject.name is None:
        return
    text = None
    if operation.query.get("multipart-manifest") == "delete":
        text = (
            "the answer would show whether the object is a large object: retry without"
            " multipart-manifest in the query"
        )
    elif _IF_EXPIRY in evaluation.environ:
        text = "X-If-Delete-At would reveal when the object expires: retry without it"
    if text is None or evaluation.loaded is None or not evaluation.loaded.has_mandatory:
        return
    # An old version has other metadata, and may be a link.
    has_version = bool(operation.version_id)
    for read in (subject.sibling(None, None),) if has_version else origins(subject):
        rule = swift_paths.covering_rule(evaluation.path_rules, read)
        if rule is not None:
            raise evaluation.refusal(rule, text)


def require_no_expiring_copy(evaluation: Evaluation) -> None:
    """Refuse Swift's copy of an object that expires over one whose deletion a rule denies: the copy
    expires at the same time.
    """
    target = evaluation.copy_target
    if target is None or evaluation.operation.runs_storlet:
        return
    denial = _denial_of_deletion(evaluation, target)
    if denial is None:
        return
    if evaluation.read.is_hidden or evaluation.read.state().expires:
        rule, message = denial
        text = f"the source expires, and so would its copy: {message}"
        raise evaluation.refusal(rule, text)


def _denial_of_deletion(evaluation: Evaluation, written: SwiftPath) -> tuple[str, str] | None:
    """The name and the message of the rule that denies a DELETE of ``written``, as it is or as the
    operation stores it; ``None`` if there is none.
    """
    denial = evaluation.path_rules.denial("DELETE", written)
    loaded = evaluation.store.of(evaluation.environ, written.version, written.account)
    if denial is not None or loaded is None or not loaded.has_denials:
        return denial
    rule = WriteDecisions(evaluation).of_deletion(written, loaded.compiled)
    if rule is None or not isinstance(rule.action, Deny):
        return None
    return rule.name, rule.action.message


def require_no_restore(evaluation: Evaluation) -> None:
    """Refuse a DELETE with which Swift would restore an archived version past a rule.

    Containers may share an archive (``X-Versions-Location``).  So the version may be of a covered
    object of another container, or bytes that no storlet of a rule about PUT has seen.
    """
    subject, loaded = evaluation.subject, evaluation.loaded
    if evaluation.method != "DELETE" or subject.name is None or subject.container is None:
        return
    if loaded is None or not (loaded.has_mandatory or loaded.has_denials):
        return
    archive = request_facts.archive_of(
        evaluation.app, evaluation.environ, subject.version, subject.account, subject.container
    )
    if archive is None:
        return
    denial = evaluation.path_rules.denial("PUT", subject)
    if denial is not None:
        raise evaluation.refusal(
            denial[0], f"DELETE would restore a version from {archive}: {denial[1]}"
        )
    rule = evaluation.path_rules.may_cover(subject.account, None, subject.name)
    rule = rule or evaluation.path_rules.may_require_run(subject)
    if rule is not None:
        raise evaluation.refusal(
            rule,
            f"DELETE would restore a version from {archive}, which may be of an object that the"
            " rule covers, or bytes that its storlet has not seen",
        )


def require_own_bytes(evaluation: Evaluation, rule: Rule) -> None:
    """Refuse to store a manifest or link: a storlet would not process the object's bytes."""
    query = evaluation.operation.query
    is_restored = evaluation.method == "PUT" and "version-id" in query
    if (
        is_restored
        or (evaluation.copy_target is not None and "symlink" in query)
        or any(key in evaluation.environ for key in _LINKS)
        or "multipart-manifest" in query
    ):
        text = (
            "an object that consists of others cannot be stored here, because the rule's storlet"
            " would not see their bytes: upload the bytes themselves"
        )
        raise evaluation.refusal(rule.name, text)


def require_restorable_version(evaluation: Evaluation) -> None:
    """Apply the rules about PUT to a version that a PUT makes the current one again, with the facts
    of the version: Swift ignores the headers of the request.

    A cluster without versions ignores the query, and stores the body.  So the rules are evaluated
    for the request as well.
    """
    is_restored = evaluation.method == "PUT" and evaluation.operation.version_id
    if not is_restored or not evaluation.is_object or evaluation.loaded is None:
        return
    rule = WriteDecisions(evaluation).of_restored()
    require_not_denied(evaluation, rule)
    if rule is not None and rule.is_mandatory:
        require_own_bytes(evaluation, rule)


def require_no_links(evaluation: Evaluation) -> None:
    """Apply the rules about PUT to a POST that turns an object into a large object or a link."""
    subject, sent = evaluation.subject, evaluation.operation.environ
    if (
        not evaluation.is_object
        or evaluation.loaded is None
        or not any(sent.get(key) for key in _LINKS)
    ):
        return
    facts = request_facts.of_request(sent, "PUT", subject.container, subject.name)
    facts = dataclasses.replace(facts, stored=request_facts.incoming_facts(sent))
    rule = evaluation.evaluator.decide(facts, explicit=True)[0].rule
    require_not_denied(evaluation, rule)
    if rule is not None and rule.is_mandatory:
        require_own_bytes(evaluation, rule)


def require_kept_coverage(evaluation: Evaluation) -> None:
    """Refuse a POST after which the rule that covers the object for the caller no longer does, or
    has other parameters.
    """
    if evaluation.method != "POST" or not evaluation.is_object:
        return
    rule = evaluation.path_rules.ends_coverage(evaluation.subject)
    if rule is not None:
        text = (
            "the rule uses the content type or metadata, and would not apply to the object in the"
            " same way after this POST, which replaces all metadata: send the values that the rule"
            " uses"
        )
        raise evaluation.refusal(rule, text)


def require_no_archived_version(evaluation: Evaluation, rule: Rule | None) -> None:
    """Refuse to read a possible old version of a covered object, whose original container is
    unknown.
    """
    subject = evaluation.subject
    if evaluation.method not in READS or (rule is not None and rule.is_mandatory):
        return
    archived = swift_paths.archived_name(subject.name or "")
    if archived is None or subject.container == evaluation.config.rules.container:
        return
    covering = evaluation.path_rules.may_cover(subject.account, None, archived)
    if covering is not None:
        raise evaluation.refusal(
            covering, "this may be an old version of an object that the rule covers"
        )


def require_no_moves(evaluation: Evaluation) -> None:
    """Refuse settings of a container with which Swift moves its objects away from its rules."""
    subject, loaded = evaluation.subject, evaluation.loaded
    if loaded is None or subject.container is None or evaluation.is_object:
        return
    setting = moving_header(evaluation.operation)
    if not setting or not loaded.has_mandatory:
        return
    # Containers share an archive, and a DELETE may restore another container's object from it.
    rule = evaluation.path_rules.may_cover(subject.account, None, None)
    if rule is not None:
        raise evaluation.refusal(
            rule, f"{setting} would make objects of the account readable without the rule"
        )


def require_no_quota(evaluation: Evaluation) -> None:
    """Refuse to set the quota of a container or account with covered objects.

    Whether Swift then accepts an upload shows the total length of the objects, bit by bit.
    """
    loaded, operation = evaluation.loaded, evaluation.operation
    if evaluation.is_object or evaluation.method not in ("PUT", "POST"):
        return
    quota = next((name for name in _quotas() if operation.header(name)), None)
    if loaded is None or not loaded.has_mandatory or quota is None:
        return
    rule = sums.covering_rule(
        evaluation.app, evaluation.environ, evaluation.path_rules, evaluation.subject
    )
    if rule is not None:
        text = f"{quota} would reveal the length of objects that the rule covers"
        raise evaluation.refusal(rule, text)


def moving_header(operation: Operation) -> str | None:
    """The header of a request with which Swift moves a container's objects away from its rules."""
    if operation.method not in ("PUT", "POST"):
        return None
    return next((name for name in _MOVING_HEADERS if operation.header(name)), None)


def _quotas() -> Iterator[str]:
    """The headers that set a quota of bytes, of a container or of an account."""
    yield from _QUOTAS
    for policy in POLICIES:
        yield f"X-Account-Quota-Bytes-Policy-{policy.name}"
