"""The plan of a run: the facts of the source that a result carries."""

from __future__ import annotations

import pytest

from rules.model import Passes
from storlet_middleware.proxy.plan import UNKNOWN_TYPE, Plan

ORDINARY = Plan("R")
MANDATORY = Plan("R", is_mandatory=True)
NAMED = Plan("R", is_mandatory=True, passes=Passes(("study", "x-*"), ("last-modified",)))
ALL = Plan("R", passes=Passes(("*",), ("*",)))


@pytest.mark.parametrize(
    ("plan", "withholds"),
    [(ORDINARY, False), (MANDATORY, True), (Plan("R", passes=Passes()), True), (ALL, True)],
)
def test_a_mandatory_rule_or_pass_withholds(plan: Plan, withholds: bool) -> None:
    assert plan.withholds is withholds


@pytest.mark.parametrize(
    ("header", "by_name", "by_wildcard"),
    [
        ("X-Object-Meta-Study", True, True),
        ("x-object-meta-STUDY", True, True),
        ("X-Object-Meta-X-Ray", True, True),
        ("X-Object-Meta-Color", False, True),
        ("Last-Modified", True, True),
        ("Content-Type", False, True),
        # Facts that no rule can release: they describe or confirm the bytes of the source.
        ("Etag", False, False),
        ("Content-Length", False, False),
        ("X-Object-Sysmeta-Secret", False, False),
        # A result is no storlet.
        ("X-Object-Meta-Storlet-Main", False, False),
    ],
)
def test_only_headers_that_pass_names_are_carried(
    header: str, by_name: bool, by_wildcard: bool
) -> None:
    assert not MANDATORY.passes_header(header)
    assert NAMED.passes_header(header) is by_name
    assert ALL.passes_header(header) is by_wildcard
    assert NAMED.passed_headers([(header, "v")]) == ({header: "v"} if by_name else {})


@pytest.mark.parametrize(
    ("plan", "headers", "expected"),
    [
        (MANDATORY, {"Content-Type": "text/csv"}, UNKNOWN_TYPE),
        (NAMED, {"Content-Type": "text/csv"}, UNKNOWN_TYPE),
        (ALL, {"Content-Type": "text/csv"}, "text/csv"),
        (ALL, {"Content-Type": ""}, UNKNOWN_TYPE),
        (ALL, {}, UNKNOWN_TYPE),
    ],
)
def test_the_content_type_passes_only_by_name(
    plan: Plan, headers: dict[str, str], expected: str
) -> None:
    assert plan.content_type(headers) == expected
