"""All code of the proxy's filter that calls Swift: the gate, and calls with a reason.

New code that requests data in a caller's name has to use :mod:`storlet_middleware.wsgi.gate`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
    "enforcement/request_facts.py look_up_object": OWN,
    "enforcement/segments.py send_preauthorised": OWN,
    "catalog/storlets.py _head": OWN,
    "catalog/storlets.py fetch": OWN,
    "catalog/bundle_store.py _head": OWN,
    "catalog/bundle_store.py list": OWN,
    "catalog/bundle_uploads.py _prune": WRITE,
    "catalog/staged_uploads.py _store": WRITE,
    "catalog/staged_uploads.py received": WRITE,
    "catalog/staged_uploads.py read": OWN,
    "catalog/staged_uploads.py write": WRITE,
    "catalog/bundle_uploads.py _delete": WRITE,
    "catalog/code_uploads.py write": WRITE,
    "catalog/code_uploads.py writer": WRITE,
    "catalog/code_uploads.py _head": "the metadata is validated; the caller gets none of it",
    "proxy/dynamic_object.py listed_bytes": OWN,
    "proxy/withheld_put.py _send": WRITE,
    "proxy/completion.py _put": OWN,
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


def calls() -> Iterator[str]:
    """File and function of each call of an application."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ELSEWHERE):
            yield from _calls_in(ast.parse(path.read_text("utf-8")), name, "")


def _calls_in(node: ast.AST, file: str, function: str) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        function = node.name
    if isinstance(node, ast.Call) and _calls_an_application(node):
        yield f"{file} {function}"
    for child in ast.iter_child_nodes(node):
        yield from _calls_in(child, file, function)


def _calls_an_application(call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Attribute):
        if isinstance(called.value, ast.Name) and called.value.id == "own_requests":
            return True
        return called.attr in SENDING or (called.attr in ("app", "_app") and len(call.args) > 1)
    return isinstance(called, ast.Name) and called.id == "app"


def test_each_call_of_swift_is_in_the_table() -> None:
    assert sorted(set(calls())) == sorted(CALLS)
