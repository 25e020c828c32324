"""Reports of decisions: the storlets of this request, their placement, and the hidden facts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import engine
from rules.facts import UNKNOWN, Caller, Facts, ObjectFacts
from rules.parse import parse
from rules.report import Planned, Report, may_show_stored, planned, steps_of
from tests.unit.rules import strategies

RULES = """\
version: 1
rules:
  - name: hide
    when: {method: GET, container: patients, content-type: text/csv, roles: researcher}
    mandatory: true
    explicit: after
    run:
      - {storlet: hide.py, parameters: {for: "{user} {metadata.study}", keep: "2"}, limits: {memory: 64M}}
      - {storlet: mark.py, on: proxy}
    pass: {metadata: [study]}
  - name: nothing-else
    when: {container: patients, roles: researcher}
    mandatory: true
    deny: only tables
  - {name: own, when: {container: own}, allow: true}
  - {name: small, when: {container: photos, size: {at-least: 10}}, run: small.py}
"""
CSV = ObjectFacts(
    exists=True, content_type="text/csv", size_bytes=12, metadata={"study": "7", "diagnosis": "flu"}
)
RESEARCHER = Facts(
    "GET", "patients", "a.csv", Caller("ada", roles=frozenset({"researcher"})), stored=CSV
)


@pytest.fixture(scope="module")
def compiled() -> engine.Compiled:
    rules, faults = parse(RULES)
    assert rules is not None, faults
    return engine.compile(rules)


def report(compiled: engine.Compiled, facts: Facts, *, shows_stored: bool = True) -> Report:
    explanation = compiled.explain(facts, facts.requests_storlet)
    return Report.of(facts, explanation, "object", shows_stored=shows_stored)


def test_a_report_has_storlets_placement_and_limits(compiled: engine.Compiled) -> None:
    told = report(compiled, RESEARCHER)
    assert told.lines()[1:] == (
        "3 later rules were not considered",
        "decision: mandatory rule hide: run hide.py on the object node with parameters for='ada 7', keep='2' with limits memory=64M",
        "decision: mandatory rule hide: then run mark.py on the proxy",
        "decision: mandatory rule hide: the result keeps metadata study and no other headers of the object",
    )
    data = json.loads(json.dumps(told.mapping()))
    assert data["request"]["metadata"] == {"study": "7", "diagnosis": "flu"}
    assert (data["rule"], data["line"], data["action"], data["mandatory"]) == (
        "hide",
        3,
        "run",
        True,
    )
    assert [(step["storlet"], step["on"], step["limits"]) for step in data["steps"]] == [
        ("hide.py", "object", {"memory": "64M"}),
        ("mark.py", "proxy", {}),
    ]
    assert data["steps"][0]["parameters"] == {"for": "ada 7", "keep": "2"}
    assert data["pass"] == {"metadata": ["study"], "headers": []}
    assert (data["asked_for"], data["undecided"], data["not_considered"]) == (None, [], 3)
    assert "content-type is 'text/csv' (required: 'text/csv')" in data["considered"][0]["because"]


def test_facts_of_the_object_can_be_hidden(compiled: engine.Compiled) -> None:
    told = report(compiled, RESEARCHER, shows_stored=False)
    assert "content-type is not shown (required: 'text/csv')" in told.lines()[0]
    assert "parameters for='{user} {metadata.study}', keep='2'" in told.lines()[2]
    shown = "\n".join((*told.lines(), json.dumps(told.mapping())))
    assert "flu" not in shown
    assert "ada 7" not in shown
    assert told.mapping()["request"] == {
        "method": "GET", "container": "patients", "object": "a.csv", "user": "ada", "roles": ["researcher"]
    }  # fmt: skip


@given(strategies.rule_sets(), st.booleans())
def test_hidden_facts_are_not_reported(rules: engine.RuleSet, explicit: bool) -> None:
    hidden = ObjectFacts(
        exists=True,
        content_type="sec/ret",
        size_bytes=7777777,
        metadata={"k": "s3cr3t", "x-m": "s3cr3t"},
    )
    compiled_ = engine.compile(rules)
    for facts in strategies.pool(20):
        asked = replace(facts, stored=hidden, headers={"x-run-storlet": "s"} if explicit else {})
        told = report(compiled_, asked, shows_stored=False)
        shown = "\n".join((*told.lines(), json.dumps(told.mapping())))
        assert not [value for value in ("sec/ret", "7777777", "s3cr3t") if value in shown]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, False),
        ({"stored": ObjectFacts(exists=True)}, False),
        ({"method": "DELETE"}, False),
        ({"container": "own"}, True),
        ({"container": "own", "method": "DELETE"}, False),
        ({"container": "photos"}, True),
        ({"container": "photos", "method": "PUT"}, False),
        ({"container": "elsewhere"}, True),
    ],
)
def test_callers_that_may_see_facts_of_the_object(
    compiled: engine.Compiled, change: dict[str, str], shown: bool
) -> None:
    facts = replace(RESEARCHER, **change)  # type: ignore[arg-type]
    assert may_show_stored(compiled.explain(facts).rule, facts) is shown
    told = Report.for_caller(compiled, facts, "object", may_read=True)
    assert told.shows_stored is shown
    assert told.explanation == compiled.explain(facts)
    assert not Report.for_caller(compiled, facts, "object", may_read=False).shows_stored


@pytest.mark.parametrize("first", ["run: preview.py", "deny: ask a physician"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "COPY"])
def test_an_ordinary_rule_before_a_mandatory_one_reveals_nothing(first: str, method: str) -> None:
    lines = [
        f"  - {{name: first, when: {{method: GET}}, {first}}}",
        "  - {name: hide, mandatory: true, when: {metadata: {k: v}}, run: h.py}",
    ]
    rules, _ = parse("\n".join(["version: 1", "rules:", *lines]))
    assert rules is not None
    compiled = engine.compile(rules)
    covered = Facts(method, "c", "o", stored=ObjectFacts(exists=True, metadata={"k": "v"}))
    assert not Report.for_caller(compiled, covered, "object", may_read=True).shows_stored
    open_ = replace(covered, stored=ObjectFacts(exists=True))
    is_denied = "deny" in first and method == "GET"
    assert Report.for_caller(compiled, open_, "object", may_read=True).shows_stored is not is_denied


def test_a_missing_value_is_reported_with_the_outcome_of_the_request(
    compiled: engine.Compiled,
) -> None:
    told = report(compiled, replace(RESEARCHER, stored=replace(CSV, metadata={})))
    assert told.lines()[3] == (
        "decision: mandatory rule hide: for of hide.py cannot be rendered: {metadata.study} is missing, so the request is refused"
    )
    assert told.mapping()["steps"][0]["missing"] == {"for": "metadata.study"}


@pytest.mark.parametrize(
    ("change", "outcome", "line"),
    [
        ({}, "after", "decision: s.py, which the client requests, runs on the output of the rule"),
        (
            {"stored": ObjectFacts(exists=True)},
            "refused",
            "decision: s.py, which the client requests, is refused, and so is the request",
        ),
        (
            {"container": "own"},
            "runs",
            "decision: s.py, which the client requests, runs as without rules",
        ),
        (
            {"container": "photos"},
            "runs",
            "decision: s.py, which the client requests, runs as without rules",
        ),
    ],
)
def test_a_report_has_the_outcome_of_a_requested_storlet(
    compiled: engine.Compiled, change: dict[str, str], outcome: str, line: str
) -> None:
    told = report(compiled, replace(RESEARCHER, headers={"x-run-storlet": "s.py"}, **change))  # type: ignore[arg-type]
    assert told.mapping()["asked_for"] == {"storlet": "s.py", "outcome": outcome}
    assert told.lines()[-1] == line


def test_an_upload_runs_at_the_proxy(compiled: engine.Compiled) -> None:
    steps = steps_of(compiled.rules.rules[3])
    assert planned(steps, replace(RESEARCHER, method="PUT"), "object") == (
        Planned("small.py", "proxy"),
    )
    assert planned(steps, RESEARCHER, "object") == (Planned("small.py", "object"),)
    assert planned(steps, RESEARCHER, None)[0].line() == "run small.py"


def test_missing_lookups_are_reported(compiled: engine.Compiled) -> None:
    told = report(compiled, replace(RESEARCHER, stored=UNKNOWN))
    assert told.lines()[-1] == "undecided: depends on the object's size, content type or metadata"
    data = told.mapping()
    assert (data["rule"], data["action"], data["steps"], data["undecided"]) == (
        None,
        "none",
        [],
        ["stored"],
    )
    assert steps_of(None) == ()
