"""The decisions about one operation: what is looked up, and what precedes them."""

from __future__ import annotations

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from tests.unit.middleware.ruled_proxy import CONTENT, OBJECT, Ruled, assert_closed, rule


@pytest.mark.parametrize(
    "when",
    [
        "method: GET, container: elsewhere",
        "method: GET, object: none",
        "method: PUT, content-type: text/csv",
        "method: GET, user: stranger",
        "method: GET, header: {x-a: b}, metadata: {study: '7'}",
        "method: GET, container: elsewhere, size: {at-least: 1}",
    ],
)
def test_a_decision_by_the_request_alone_needs_no_lookup(ruled: Ruled, when: str) -> None:
    ruled.rule(rule("hide", when, "deny: it is closed"))
    assert ruled.get().data == CONTENT
    assert ruled.seen() == ["GET c/o"]


@pytest.mark.parametrize(
    "facts", ["metadata: {study: '8'}", "content-type: image/png", "size: {at-least: 1M}"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_object_is_looked_up_once_for_all_rules(ruled: Ruled, facts: str, method: str) -> None:
    rules = "".join(rule(f"r{number}", f"method: GET, object: {{glob: '*{'?' * (number % 2)}'}}, {facts}", "deny: closed")
                    for number in range(4))  # fmt: skip
    ruled.rule(rules)
    assert ruled.proxy.call(method, "c/o").status == 200
    assert sorted(ruled.seen()) == sorted(["HEAD c/o", f"{method} c/o"])


def test_a_refusal_needs_one_lookup_and_reads_no_bytes(ruled: Ruled) -> None:
    ruled.rule(
        rule(
            "hide",
            "method: GET, metadata: {study: '7'}, content-type: text/csv",
            "deny: it is closed",
        )
    )
    assert_closed(ruled.get())
    assert [one for one in ruled.seen() if one.endswith("c/o")] == ["HEAD c/o"]


def test_container_metadata_is_looked_up_without_the_object(ruled: Ruled) -> None:
    ruled.rule(
        rule("hide", "method: GET, container-metadata: {closed: 'yes'}", "deny: it is closed")
    )
    assert ruled.get().status == 200
    assert [one for one in ruled.seen() if one.startswith("HEAD c/")] == []


ABOUT_METADATA = rule("hide", "method: GET, metadata: {closed: 'yes'}", "deny: it is closed")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_an_object_that_cannot_be_looked_up_is_refused(ruled: Ruled, status: int) -> None:
    ruled.rule(ABOUT_METADATA)
    ruled.swift.hooks["HEAD", OBJECT] = lambda request: Response(status=status, request=request)
    answer = ruled.get()
    assert answer.status == 503, answer.data
    assert b"secret" not in answer.data


def test_a_missing_object_gets_swifts_own_answer(ruled: Ruled) -> None:
    ruled.rule(ABOUT_METADATA)
    answer = ruled.get("c/none")
    assert (answer.status, answer.error) == (404, "")


def test_swifts_own_refusal_comes_first(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    for user, status in (("test:carl", 403), ("", 401)):
        answer = ruled.get(user=user)
        assert (answer.status, answer.headers.get(names.RULE)) == (status, None), answer.data
        assert b"hide" not in answer.data
        assert b"hide" not in ruled.get(user=user, headers={"Range": "bytes=0-3"}).data


def test_no_rule_applies_to_the_container_of_rules(ruled: Ruled) -> None:
    """Otherwise a rule could close the way to remove it."""
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    assert_closed(ruled.get())
    assert ruled.get("storlet_rules/rules.yaml").status == 200
