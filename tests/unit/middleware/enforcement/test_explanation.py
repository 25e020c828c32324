"""Explanations of decisions, for callers with read access to the rules."""

from __future__ import annotations

import json

import pytest

from tests.unit.middleware.ruled_proxy import BOB, Ruled, rule
from tests.unit.middleware.support import Node

EXPLAIN = {"X-Storlet-Explain": "true"}

JSON = EXPLAIN | {"Accept": "application/json"}


def test_an_explanation_runs_no_storlet_and_reveals_no_data(ruled: Ruled, node: Node) -> None:
    ruled.rule(
        rule(
            "hide",
            "method: GET, object: o",
            "run: {storlet: up.py, on: proxy, limits: {memory: 64M}}",
        )
    )
    answer = ruled.get(headers=EXPLAIN)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    text = answer.data.decode()
    assert "rule hide" in text
    assert "run up.py on the proxy" in text
    assert "memory" in text.lower()
    assert "secret" not in text
    assert node.workers.runs == []
    assert "GET c/o" not in ruled.seen()


def test_an_explanation_as_json(ruled: Ruled) -> None:
    ruled.rule(
        rule("other", "method: PUT", "deny: not this", mandatory=False)
        + rule(
            "hide",
            "method: GET, metadata: {study: '7'}",
            "run: {storlet: up.py, parameters: {p: '{object}'}}",
        )
    )
    answer = ruled.get(headers=JSON)
    (told,) = json.loads(answer.data)
    assert (told["rule"], told["action"], told["mandatory"]) == ("hide", "run", True)
    assert [each["rule"] for each in told["considered"]] == ["other", "hide"]
    assert [each["matches"] for each in told["considered"]] == [False, True]
    (step,) = told["steps"]
    assert (step["storlet"], step["parameters"]) == ("up.py", {"p": "o"})
    assert len(told["version"]) == 64


def test_an_explanation_of_a_copy_covers_source_and_target(ruled: Ruled) -> None:
    ruled.rule(
        rule("read", "method: COPY, container: c, object: o", "deny: not this", mandatory=False)
        + rule(
            "write", "method: PUT, container: c, object: copy", "deny: nor this", mandatory=False
        )
    )
    told = json.loads(ruled.proxy.call("COPY", "c/o", JSON | {"Destination": "c/copy"}).data)
    assert [each["rule"] for each in told] == ["read", "write"]
    assert "copy" not in ruled.swift.containers["c"].objects


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_an_explanation_changes_nothing(ruled: Ruled, method: str) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: not this"))
    before = dict(ruled.swift.containers["c"].objects)
    assert ruled.proxy.call(method, "c/o", EXPLAIN, body=b"new").status == 200
    assert ruled.swift.containers["c"].objects == before
    assert not [one for one in ruled.seen() if one.startswith(f"{method} ")]


@pytest.mark.parametrize("user", [BOB, "", "test:carl"])
def test_an_explanation_needs_read_access_to_the_rules(ruled: Ruled, user: str) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: not this"))
    answer = ruled.get(headers=EXPLAIN, user=user)
    assert answer.status == (403 if user else 401), answer.data
    assert b"hide" not in answer.data


def test_an_explanation_hides_metadata_that_a_rule_covers(ruled: Ruled) -> None:
    ruled.swift.containers["storlet_rules"].read = BOB
    ruled.swift.containers["c"].objects["o"].headers["X-Object-Meta-Study"] = "a secret value"
    ruled.rule(
        rule(
            "hide",
            "method: GET, metadata: {study: {prefix: a}}",
            "run: {storlet: up.py, parameters: {p: '{metadata.study}'}}",
        )
    )
    for headers in (EXPLAIN, JSON):
        answer = ruled.get(headers=headers, user=BOB)
        assert answer.status == 200, answer.data
        assert b"hide" in answer.data
        assert b"secret value" not in answer.data


def test_an_explanation_without_rules(ruled: Ruled) -> None:
    answer = ruled.get(headers=EXPLAIN)
    assert (answer.status, answer.data) == (200, b"no rules are in force\n")
    assert ruled.get(headers=EXPLAIN, user=BOB).status == 403


def test_an_audited_rule_that_would_decide_is_explained(ruled: Ruled) -> None:
    ruled.rule(rule("a", "object: o, metadata: {study: '7'}", "deny: not this") + "  mode: audit\n")
    text = ruled.get(headers=EXPLAIN).data.decode()
    assert text.splitlines()[-2:] == [
        "no rule matches: the request proceeds as without rules",
        "audited mandatory rule a would deny: not this",
    ]
    (told,) = json.loads(ruled.get(headers=JSON).data)
    assert (told["rule"], told["action"]) == (None, "none")
    expected = {"rule": "a", "line": 3, "action": "deny", "message": "not this", "storlets": []}
    assert told["audited"] == expected
    (told,) = json.loads(ruled.get("c/other", headers=JSON).data)
    assert told["audited"] is None


def test_an_explanation_covers_further_outputs(ruled: Ruled, node: Node) -> None:
    ruled.rule(rule("closed", "method: PUT, object: shut", "deny: it is closed", mandatory=False))
    outputs = {"X-Run-Storlet": "up.py", "X-Storlet-Output": "/c/open, /c/shut"}
    told = ruled.get(headers={**EXPLAIN, **outputs}).data.decode().splitlines()
    assert told[-2:] == [
        "output /c/open: allowed",
        "output /c/shut: refused by rule closed: it is closed",
    ]
    assert json.loads(ruled.get(headers={**JSON, **outputs}).data)[1:] == [
        {"output": "/c/open", "outcome": "allow", "rule": None},
        {"output": "/c/shut", "outcome": "deny", "rule": "closed", "message": "it is closed"},
    ]
    assert node.workers.runs == []
