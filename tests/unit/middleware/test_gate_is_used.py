"""All code of the proxy's filter that calls Swift, and all that makes an answer: the gate, and the
rest with a reason.

New code that requests data in a caller's name has to use :mod:`storlet_middleware.wsgi.gate`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import storlet_middleware

ROOT: Final = Path(storlet_middleware.__file__).parent
#: Packages that do not run in a proxy server, or know nothing of Swift's pipeline.
ELSEWHERE: Final = ("aio", "cli", "sandboxd", "object_server")
#: Methods of swob that call an application.
SENDING: Final = frozenset({"call_application", "get_response"})

OWN = "a pre-authorised request of the filter itself; the caller gets no part of the answer"
WRITE = "a write; its answer describes what was written"
CALLS: Final = {
    "wsgi/gate.py ask": "the gate",
    "wsgi/gate.py stream": "the gate",
    "wsgi/own_requests.py send": OWN,
    "flows/caller_requests.py send": "calls the whole filter, which uses the gate",
    "wsgi/grant_changes.py _warnings": OWN,
    "wsgi/grant_changes.py change": WRITE,
    "wsgi/grant_changes.py answer": "adds a header to the answer, which the gate has taken",
    "wsgi/s3_headers.py __call__": "keeps headers of answers that have passed this filter",
    "s3select/controller.py _get": "left of the filter: enters it as the caller's own request",
    "s3select/controller.py _described": "the same; a length for a range of the run",
    "enforcement/request_facts.py look_up_object": OWN,
    "enforcement/segments.py send_preauthorised": OWN,
    "enforcement/sums.py _pages": OWN,
    "account_secrets/store.py _send": "encrypted values; no caller gets one",
    "account_secrets/store.py names": "a pre-authorised listing; owners get the names",
    "catalog/storlets.py _head": OWN,
    "catalog/storlets.py fetch": OWN,
    "catalog/bundle_store.py _head": OWN,
    "catalog/bundle_store.py list": OWN,
    "catalog/bundle_objects.py prune": WRITE,
    "catalog/staged_uploads.py _store": WRITE,
    "catalog/staged_uploads.py received": WRITE,
    "catalog/staged_uploads.py read": OWN,
    "catalog/staged_uploads.py write": WRITE,
    "catalog/bundle_uploads.py _delete": WRITE,
    "catalog/code_uploads.py write": WRITE,
    "catalog/code_uploads.py writer": WRITE,
    "catalog/code_uploads.py _head": "the metadata is validated; the caller gets none of it",
    "proxy/withheld_put.py _send": WRITE,
    "services/requests.py _enter": "enters at this filter, as the caller's own request",
    "wsgi/dynamic_object.py listed_bytes": OWN,
    "wsgi/early_refusal.py refusal_of": "only look-ups of the container and the account go further",
    "proxy/log_objects.py _put": OWN,
    "records/followed.py mark": OWN,
    "records/store.py _put": OWN,
    "records/store.py names": "a pre-authorised listing; the caller gets none of it",
    "records/store.py read": "records of runs; the caller gets its view of them (Viewer)",
    "ruleset/pointer.py set": OWN,
    "ruleset/upload.py delete": WRITE,
    "ruleset/versions.py read": OWN,
    "ruleset/versions.py write": WRITE,
    "ruleset/versions.py remove": WRITE,
    "ruleset/validation.py _head": OWN,
}


GATED = "an answer of the gate, reduced"
FILTERS = "of data of the filter's own: code, versions, records, rules; their ACL was checked"
REFUSAL = "a refusal with a text of the filter's own"
WRITTEN = "an answer about what was written"
#: Code that makes an answer for a caller.
ANSWERS: Final = {
    "wsgi/gate.py ask": "the gate",
    "wsgi/gate.py start": "the gate",
    "wsgi/gate.py _checked": "the gate",
    "wsgi/gate.py reduced": "the gate",
    "wsgi/answer.py __call__": "sends an answer as it is",
    "wsgi/grant_changes.py start": "adds a header to an answer that the gate has taken",
    "wsgi/s3_headers.py start": "adds headers to answers that have passed this filter",
    "wsgi/deferred_put.py keep": "the filter's decision about a PUT that is sent later",
    "wsgi/early_refusal.py _authorized": REFUSAL,
    "s3select/controller.py _answer": "a storlet's output, the body of the filter's own answer",
    "enforcement/listing.py hide_covered": GATED,
    "enforcement/listing.py zero_byte_sums": GATED,
    "enforcement/listing.py _with_body": GATED,
    "enforcement/passing.py _without_body": GATED,
    "enforcement/passing.py copy_evaluated": REFUSAL,
    "enforcement/passing.py read_evaluated": REFUSAL,
    "enforcement/explanation.py explain": "decisions, without facts that rules hide",
    "enforcement/read_guard.py _refusal_of_deletion": REFUSAL,
    "enforcement/read_guard.py _refusal_response": REFUSAL,
    "enforcement/requirements.py require_parsed_copy": REFUSAL,
    "error_answers.py of": REFUSAL,
    "error_answers.py _for_method_of": "Swift's refusal without its body",
    "filter.py _forward_unstored": REFUSAL,
    "proxy/response.py answer_of": "a storlet's output, with headers by the allow-list of disclosure",
    "proxy/output_range.py answer": "a part of such an output",
    "proxy/caller_reads.py _refusal": "Swift's refusal of a source; only its status for a covered caller",
    "proxy/source.py _require_length": REFUSAL,
    "proxy/withheld_put.py _send": REFUSAL,
    "flows/caller_requests.py send": "the filter's own answer, which has passed the gate",
    "flows/distributed.py _streamed": "outputs of storlets, each the body of such an answer",
    "flows/distributed.py _stored": WRITTEN,
    "flows/distributed.py _complete": "outputs of storlets, each the body of such an answer",
    "account_secrets/answers.py _response": FILTERS,
    "catalog/bundle_uploads.py versions": FILTERS,
    "catalog/bundle_uploads.py _point": WRITTEN,
    "catalog/bundle_objects.py put": REFUSAL,
    "catalog/bundle_uploads.py authorize": REFUSAL,
    "catalog/code_uploads.py _head": "read by the filter",
    "catalog/library_list.py answer": "the system library, equal for all",
    "catalog/staged_uploads.py received": REFUSAL,
    "records/answers.py _stream": FILTERS,
    "records/answers.py _response": FILTERS,
    "records/protection.py refusal": REFUSAL,
    "ruleset/activation.py _refusal": REFUSAL,
    "ruleset/upload.py delete": WRITTEN,
    "ruleset/upload.py _refusal": REFUSAL,
    "ruleset/upload_report.py _response": WRITTEN,
}


def calls() -> Iterator[str]:
    """File and function of each call of an application."""
    return _found(_calls_an_application)


def _found(is_wanted: Callable[[ast.Call], bool]) -> Iterator[str]:
    return (place for place, call in _all_calls() if is_wanted(call))


@cache
def _all_calls() -> list[tuple[str, ast.Call]]:
    """Each call, with its file and function."""
    found = []

    def visit(node: ast.AST, file: str, function: str) -> None:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            found.append((f"{file} {function}", node))
        for child in ast.iter_child_nodes(node):
            visit(child, file, function)

    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ELSEWHERE):
            visit(ast.parse(path.read_text("utf-8")), name, "")
    return found


def _calls_an_application(call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Attribute):
        if isinstance(called.value, ast.Name) and called.value.id == "own_requests":
            return True
        return called.attr in SENDING or (called.attr in ("app", "_app") and len(call.args) > 1)
    return isinstance(called, ast.Name) and called.id == "app"


def _makes_an_answer(call: ast.Call) -> bool:
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in ("Answer", "Response", "start_response") or bool(
        re.fullmatch("HTTP[A-Z][A-Za-z]+", name)
    )


def test_each_call_of_swift_is_in_the_table() -> None:
    assert sorted(set(calls())) == sorted(CALLS)


def test_each_answer_is_in_the_table() -> None:
    assert sorted(set(_found(_makes_an_answer))) == sorted(ANSWERS)
