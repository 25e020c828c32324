"""Findings about the storlets of a rule: existence, content types, permissions."""

from __future__ import annotations

import pytest

from rules.check.pipelines import StorletFacts, accepts, has_accepted_type, output_type
from rules.conditions import facts_from
from rules.evaluation import holds
from rules.model import All, Any, Not, Operator, Test
from tests.unit.rules.check.findings import ERROR, GZIP, STORLETS, WARNING, decider, found, only
from tests.unit.rules.texts import rules_of


def test_a_storlet_that_does_not_exist() -> None:
    finding = only("when: {container: a}, run: [anything.py, nowhere.jar]", storlets=STORLETS)
    assert (finding.code, finding.severity) == ("storlet.missing", ERROR)
    assert "runs nowhere.jar" in finding.text
    assert decider(finding, "when: {container: a}, run: anything.py") == "r0"
    gone = StorletFacts("anything.py", exists=False)
    assert found("run: anything.py", storlets={"anything.py": gone}) == [("storlet.missing", ERROR)]


def test_a_pipeline_whose_types_do_not_fit() -> None:
    finding = only(
        "when: {content-type: text/csv}, run: [gzip.jar, thumbnail.py]", storlets=STORLETS
    )
    assert (finding.code, finding.severity) == ("pipeline.type", WARNING)
    assert (
        "gzip.jar declares the output application/gzip, but the next storlet, thumbnail.py,"
        " declares that it accepts only image/*" in finding.text
    )
    assert (
        found(
            "when: {content-type: text/csv}, run: [gzip.jar, gunzip.jar, anything.py]",
            storlets=STORLETS,
        )
        == []
    )


def test_the_types_of_a_reverse_must_fit_too() -> None:
    rule = (
        "when: {method: PUT, content-type: text/csv}, run: gzip.jar, and-reverse-on-read: {run: %s}"
    )
    assert found(rule % "gunzip.jar", storlets=STORLETS) == []
    assert found(rule % "thumbnail.py", storlets=STORLETS) == [("pipeline.type", WARNING)]
    assert found(rule % "nowhere.py", storlets=STORLETS) == [("storlet.missing", ERROR)]


def test_objects_that_the_first_storlet_does_not_accept() -> None:
    finding = only("when: {container: pictures}, run: thumbnail.py", storlets=STORLETS)
    assert (finding.code, finding.severity) == ("pipeline.input", WARNING)
    assert "content-type=text/plain" in finding.example
    finding = only("when: {content-type: text/csv}, run: thumbnail.py", storlets=STORLETS)
    assert (finding.code, finding.severity) == ("pipeline.input", WARNING)
    assert "only objects" in finding.text
    assert (
        found("when: {content-type: {prefix: image/j}}, run: thumbnail.py", storlets=STORLETS) == []
    )
    everything = {
        "t": StorletFacts("t", input_types=("*/*",)),
        "u": StorletFacts("u", input_types=("*",)),
    }
    assert found("when: {container: a}, run: t", "run: u", storlets=everything) == []


@pytest.mark.parametrize(
    ("takes", "advised"),
    [
        (("image/*",), "content-type: {prefix: image/}"),
        (("text/CSV",), "content-type: text/csv"),
        (("a/b", "c/d"), "content-type: [a/b, c/d]"),
        (("image/*", "text/*", "a/b"),
         "any: [{content-type: {prefix: image/}}, {content-type: {prefix: text/}}, {content-type: a/b}]"),
    ],
)  # fmt: skip
def test_the_recommended_condition_removes_the_finding(
    takes: tuple[str, ...], advised: str
) -> None:
    storlets = {"t": StorletFacts("t", input_types=takes)}
    finding = only("when: {container: a}, run: t", storlets=storlets)
    assert finding.help.endswith(f": {advised}")
    assert found(f"when: {{container: a, {advised}}}, run: t", storlets=storlets) == []


def test_callers_that_may_not_run_the_storlet() -> None:
    readers = Any(
        (Test("roles", Operator.HAS, frozenset({"reader"})), Test("user", Operator.EXACT, "root"))
    )
    closed = {"t": StorletFacts("t", may_run=readers)}
    finding = only("when: {container: a}, run: t", storlets=closed)
    assert (finding.code, finding.severity) == ("storlet.access", WARNING)
    finding = only("when: {anonymous: true}, run: t", storlets=closed)
    assert (finding.code, finding.severity, "anonymous=true" in finding.example) == (
        "storlet.access",
        ERROR,
        True,
    )
    assert found("when: {roles: reader}, run: t", storlets=closed) == []
    assert (
        found("when: {container: a}, run: t", storlets={"t": StorletFacts("t", may_run=All())})
        == []
    )
    no_caller = {"t": StorletFacts("t", may_run=Not(All()))}
    assert found("when: {container: a}, run: t", storlets=no_caller) == [("storlet.access", ERROR)]


def test_callers_of_a_reverse_need_permission_to_run_its_storlets() -> None:
    storlets = {
        "gzip.jar": GZIP,
        "gunzip.jar": StorletFacts("gunzip.jar", may_run=Test("user", Operator.EXACT, "a")),
    }
    rule = "when: {method: PUT, content-type: text/a}, run: gzip.jar, and-reverse-on-read: {run: gunzip.jar, when: {user: %s}}"
    assert found(rule % "a", storlets=storlets) == []
    assert found(rule % "[a, b]", storlets=storlets) == [("storlet.access", WARNING)]
    assert found(rule % "b", storlets=storlets) == [("storlet.access", ERROR)]


@pytest.mark.parametrize(
    ("accepted", "content_type", "is_accepted"),
    [
        ((), "x/y", True),
        (("*/*",), "x/y", True),
        (("*",), "x/y", True),
        (("text/*",), "Text/CSV; charset=utf-8", True),
        (("text/*",), "textual/csv", False),
        (("text/csv",), "text/csv;header=present", True),
        (("text/csv",), "text/csv2", False),
        (("a/b", "c/*"), "c/d", True),
    ],
)
def test_accepted_content_types(
    accepted: tuple[str, ...], content_type: str, is_accepted: bool
) -> None:
    storlet = StorletFacts("s", input_types=accepted)
    assert accepts(storlet, content_type) is is_accepted
    facts = facts_from({"container": "c", "object": "o", "content-type": content_type})
    assert holds(has_accepted_type(storlet), facts) is is_accepted


def test_the_output_type_of_a_rule_is_that_of_its_last_storlet() -> None:
    storlets = {
        "a": StorletFacts("a", output_type="text/plain"),
        "b": StorletFacts("b", output_type="Text/CSV; charset=utf-8"),
        "c": StorletFacts("c"),
        "removed": StorletFacts("removed", exists=False, output_type="text/plain"),
    }
    types = {
        run: output_type(rules_of(f"run: {run}").rules[0], storlets)
        for run in ("a", "[a, b]", "[b, c]", "removed", "nowhere")
    }
    assert types == {
        "a": "text/plain", "[a, b]": "text/csv", "[b, c]": None, "removed": None, "nowhere": None
    }  # fmt: skip
    assert output_type(rules_of("deny: x").rules[0], storlets) is None
