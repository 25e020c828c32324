"""The storlets that rules require: requests and plan."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.model import Passes
from storlet_middleware import names
from storlet_middleware.catalog.library import Library
from storlet_middleware.enforcement.storlet_runs import _common_passes
from tests.support.bundles import tool
from tests.unit.middleware.ruled_proxy import BOB, CONTENT, UPPER, Ruled, assert_closed, rule
from tests.unit.middleware.support import OWNER, Answer, Node, WorkerRun


def test_a_rule_runs_its_storlet(ruled: Ruled) -> None:
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}'", "run: up.py"))
    answer = ruled.get(user=BOB)
    assert (answer.status, answer.data, answer.headers[names.RULE]) == (200, UPPER, "hide")
    assert "X-Object-Meta-Study" not in answer.headers
    assert ruled.get().data == CONTENT
    assert ruled.swift.unclosed() == 0


def test_the_clients_storlet_replaces_an_ordinary_rule(ruled: Ruled) -> None:
    ruled.rule(rule("soft", "method: GET", "deny: it is closed", mandatory=False))
    assert_closed(ruled.get(), "soft")
    answer = ruled.get(headers={"X-Run-Storlet": "up.py"})
    assert (answer.status, answer.data, answer.headers.get(names.RULE)) == (200, UPPER, None)


@pytest.mark.parametrize("is_mandatory", [True, False])
def test_a_rule_with_a_library_storlet_that_is_switched_off_lets_nothing_out(
    ruled: Ruled, *, is_mandatory: bool
) -> None:
    ruled.rule(rule("hide", "method: GET", "run: 'std:nop'", mandatory=is_mandatory))
    assert ruled.get(user=BOB).data == UPPER
    ruled.proxy.filter._proxy.catalog.library = Library({}, {"std:nop": "switched off"})
    answer = ruled.get(user=BOB)
    assert (answer.status, answer.error) == (422, "storlet.not_found")
    assert CONTENT not in answer.data
    assert ruled.swift.unclosed() == 0


def by_parameters(worker: WorkerRun) -> None:
    """Write the invocation's parameters, then its input."""
    worker.begin()
    worker.write(json.dumps(dict(worker.invoke.parameters), sort_keys=True).encode())
    worker.write(worker.read())
    worker.succeed()


def test_parameters_of_a_rule_are_rendered_with_the_facts(ruled: Ruled, node: Node) -> None:
    node.workers.script = by_parameters
    ruled.rule(
        rule(
            "hide",
            "method: GET, metadata: {study: '7'}",
            "run: {storlet: up.py, parameters: {n: '{container}/{object}', s: '{metadata.study}'}}",
        )
    )
    assert ruled.get().data == b'{"n": "c/o", "s": "7"}' + CONTENT


@pytest.mark.parametrize("text", ["{metadata.study}", "api-{metadata.study}", "{object}"])
def test_facts_of_a_request_name_no_secret_for_others_than_owners(ruled: Ruled, text: str) -> None:
    packed = tool("tool", parameters={"key": {"type": "secret"}})
    assert ruled.proxy.call("PUT", "storlet/tool.storlet", body=packed).status == 201
    ruled.swift.put("c", "o", CONTENT, X_Object_Meta_Study="token")

    def get(key: str, user: str) -> Answer:
        run = f"run: {{storlet: tool, parameters: {{key: '{key}'}}}}"
        ruled.rule(rule("hide", "method: GET", run))
        return ruled.get(user=user)

    refused = get(text, BOB)
    assert (refused.status, refused.error) == (403, "access.rule")
    assert b"rule hide: it names a secret with {...} in a parameter" in refused.data
    # The run begins, and the secret is not set.
    for key, user in ((text, OWNER), ("api-token", BOB)):
        answer = get(key, user)
        assert (answer.status, answer.error) == (422, "storlet.secret"), answer.data
    assert ruled.swift.unclosed() == 0


def test_a_parameter_without_a_value_refuses_the_request(ruled: Ruled) -> None:
    ruled.rule(
        rule("hide", "method: GET", "run: {storlet: up.py, parameters: {p: '{metadata.none}'}}")
    )
    answer = ruled.get()
    assert_closed(answer)
    assert (
        b"in a parameter of the rule, {metadata.none} has no value in this request" in answer.data
    )


def test_the_clients_storlet_runs_after_those_of_a_rule_that_permits_it(
    ruled: Ruled, node: Node
) -> None:
    ruled.swift.put_storlet("own.py")
    text = rule("hide", "method: GET", "run: {storlet: up.py, parameters: {p: rule}}")
    ruled.rule(text.replace("  mandatory: true", "  mandatory: true\n  explicit: after"))
    headers = {"X-Run-Storlet": "own.py", "X-Storlet-Parameter-1": "p:client"}
    node.workers.script = by_parameters
    answer = ruled.get(headers=headers)
    assert (answer.data, answer.headers[names.RULE]) == (
        b'{"p": "client"}{"p": "rule"}' + CONTENT,
        "hide",
    )
    more = {"X-Storlet-Extra-Resources": "/c/other"}
    assert ruled.get(headers=headers | more).error == "bad_request"


@pytest.mark.parametrize(
    ("method", "path", "headers", "part"),
    [
        ("PUT", "storlet/x.py", {}, "cannot write into the container storlet"),
        ("COPY", "c/o", {"Destination": "dependency/x"}, "container dependency"),
        (
            "COPY",
            "c/o",
            {"Destination": "c/x", "Destination-Account": "AUTH_other"},
            "copy between accounts",
        ),
        ("COPY", "c/o", {"Destination": "c/x", "Range": "bytes=0-1"}, "a range cannot be copied"),
    ],
)
def test_operations_on_which_storlets_cannot_run_are_refused_by_the_rule(
    ruled: Ruled, method: str, path: str, headers: dict[str, str], part: str
) -> None:
    ruled.rule(rule("soft", f"method: {method}", "run: up.py", mandatory=False))
    answer = ruled.proxy.call(method, path, headers, body=b"x" if method == "PUT" else None)
    assert_closed(answer, "soft")
    assert part in answer.data.decode()


def test_an_account_that_is_not_enabled_is_refused_by_the_rule(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "run: up.py"))
    ruled.swift.is_enabled = False
    ruled.proxy.memcache.values.clear()
    answer = ruled.get()
    assert_closed(answer)
    assert b"Account disabled for storlets" in answer.data


def test_a_mandatory_rule_is_named_before_an_ordinary_one(ruled: Ruled) -> None:
    ruled.rule(
        rule("read", "method: COPY, container: c", "run: up.py", mandatory=False)
        + rule("write", "method: PUT, container: c", "run: up.py")
    )
    answer = ruled.proxy.call("COPY", "c/o", {"Destination": "c/x"})
    assert (answer.status, answer.headers[names.RULE]) == (201, "write")
    assert ruled.swift.containers["c"].objects["x"].body == UPPER


NAMES = st.sampled_from(["study", "color", "last-modified", "x-a", "x-*", "*"])
PASSES = st.builds(
    Passes, st.lists(NAMES, unique=True).map(tuple), st.lists(NAMES, unique=True).map(tuple)
)
RULES = st.lists(st.tuples(PASSES | st.none(), st.booleans()), max_size=3)


@given(RULES)
def test_a_result_carries_only_facts_that_every_limiting_rule_passes(
    rules: list[tuple[Passes | None, bool]],
) -> None:
    made: Any = [SimpleNamespace(passes=one, is_mandatory=must) for one, must in rules]
    common = _common_passes(made)
    limiting = [one or Passes() for one, must in rules if must or one is not None]
    assert (common is None) == (not limiting)
    for name in ("study", "color", "last-modified", "x-a", "x-b", "etag"):
        if common is not None:
            by_all = all(one.allows_metadata(name) for one in limiting)
            assert common.allows_metadata(name) == by_all
            by_all = all(one.allows_header(name) for one in limiting)
            assert common.allows_header(name) == by_all
