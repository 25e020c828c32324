"""The rules are evaluated for reads that the filter has not decided about."""

from __future__ import annotations

import pytest
from swift.common.swob import Request

from storlet_middleware.enforcement.covered_reads import CoveredReads
from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.swift_paths import SwiftPath, hidden_version
from tests.unit.middleware.rules_pipeline import COVERED, OnePathRule

SEGMENT = SwiftPath("v1", "AUTH_a", "closed", "o")
ID = "0000001640995200.00000"


def reads_of(
    rules: OnePathRule,
    method: str = "GET",
    path: str = "c/o",
    headers: dict[str, str] | None = None,
) -> CoveredReads:
    """The reads of a client's request, with ``rules``."""
    environ = Request.blank(f"/v1/AUTH_a/{path}", method=method, headers=headers).environ
    operation = parse(environ)
    assert operation is not None
    return CoveredReads(operation, lambda _: rules, operation.subject, None)


def test_a_covered_read_is_refused_each_time_and_evaluated_once() -> None:
    rules = OnePathRule(COVERED)
    reads = reads_of(rules)
    for _ in range(2):
        with pytest.raises(RuleRefused, match="an object that the rule covers"):
            reads.require(SEGMENT, "GET")
    assert rules.checked == [COVERED]


def test_an_uncovered_read_is_allowed() -> None:
    reads_of(OnePathRule("AUTH_a/closed/other")).require(SEGMENT, "GET")


@pytest.mark.parametrize(
    ("read", "method", "may_run"),
    [
        (SEGMENT, "HEAD", True),
        (SEGMENT, "GET", False),
        (SwiftPath("v1", "AUTH_b", "closed", "o"), "GET", True),
        (SEGMENT.sibling("closed", None), "GET", True),
    ],
    ids=["not a GET", "not by the storlet", "another account", "a listing"],
)
def test_the_rules_own_storlet_reads_objects_of_the_account(
    read: SwiftPath, method: str, may_run: bool
) -> None:
    rules = OnePathRule(COVERED, "AUTH_b/closed/o", "AUTH_a/closed/*")
    reads = reads_of(rules)
    reads.allow_storlet_of("hide", follows_links=True)
    reads.require(SEGMENT, "GET")
    with pytest.raises(RuleRefused):
        reads.require(read, method, may_run=may_run)


def test_the_storlet_of_another_rule_reads_nothing() -> None:
    reads = reads_of(OnePathRule(COVERED))
    reads.allow_storlet_of("other", follows_links=True)
    with pytest.raises(RuleRefused):
        reads.require(SEGMENT, "GET")


@pytest.mark.parametrize(
    ("method", "path", "read", "is_decided"),
    [
        ("GET", "c/o", ("c", "o"), True),
        ("HEAD", "c/o", ("c", "o"), True),
        ("GET", "c/o", ("c", "p"), False),
        ("GET", "c", ("c", None), False),
        ("PUT", "c/o", ("c", "o"), False),
        ("GET", f"c/o?version-id={ID}", ("c", "o"), False),
        ("GET", f"c/o?version-id={ID}", hidden_version("c", "o", ID), True),
        ("GET", "c/o?version-id=x", ("c", "o"), False),
    ],
)
def test_reads_that_the_filter_has_decided_about(
    method: str, path: str, read: tuple[str, str | None], is_decided: bool
) -> None:
    reads = reads_of(OnePathRule(), method, path)
    place = SwiftPath("v1", "AUTH_a", *read)
    assert reads.is_decided(place, method) is is_decided


@pytest.mark.parametrize(("method", "is_decided"), [("GET", True), ("HEAD", False)])
def test_a_copy_reads_its_source_once(method: str, is_decided: bool) -> None:
    reads = reads_of(OnePathRule(), "COPY", "c/o", {"Destination": "c/copy"})
    place = SwiftPath("v1", "AUTH_a", "c", "o")
    assert reads.is_decided(place, method) is is_decided
