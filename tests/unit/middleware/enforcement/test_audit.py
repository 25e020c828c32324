"""Audited rules: they are counted, and change neither an answer nor a lookup for other rules."""

from __future__ import annotations

import pytest
from swift.common.swob import Response

from tests.unit.middleware.ruled_proxy import CONTENT, OBJECT, Ruled, assert_closed, rule

COUNTED = "storlet.rules.audited"


def audited(name: str, when: str, action: str, mandatory: bool = True) -> str:
    return rule(name, when, action, mandatory) + "  mode: audit\n"


def counted(ruled: Ruled) -> list[str]:
    """The metrics of audited rules since the last call."""
    stats = ruled.proxy.logger.stats
    found = [name for name in stats if name.startswith(COUNTED)]
    stats.clear()
    return found


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PUT"])
@pytest.mark.parametrize("action", ["deny: closed", "run: up.py"])
def test_no_answer_changes(ruled: Ruled, method: str, action: str) -> None:
    def call() -> tuple[int, bytes, list[str]]:
        ruled.swift.put("c", "o", CONTENT)
        answer = ruled.proxy.call(method, "c/o", {"X-Timestamp": "1"}, body=CONTENT)
        return answer.status, answer.data, ruled.seen()

    ruled.rule(rule("none", "container: none", "deny: never"))
    before = call()
    assert before[0] in {200, 201, 202, 204}
    ruled.rule(rule("none", "container: none", "deny: never") + audited("a", "object: o", action))
    counted(ruled)
    assert call() == before
    assert counted(ruled) == [f"{COUNTED}.{action.partition(':')[0]}"]


def test_an_enforced_rule_decides_as_without_the_audited_one(ruled: Ruled) -> None:
    hide = rule("hide", "object: o", "deny: it is closed")
    ruled.rule(audited("a", "object: o", "allow: true", mandatory=False) + hide)
    assert_closed(ruled.get())
    assert counted(ruled) == [f"{COUNTED}.allow"]


def test_an_audited_rule_after_the_deciding_one_is_not_counted(ruled: Ruled) -> None:
    first = rule("first", "object: o", "allow: true", mandatory=False)
    ruled.rule(first + audited("a", "object: o", "deny: closed"))
    assert ruled.get().status == 200
    assert counted(ruled) == []


def test_both_decisions_of_a_copy_are_counted(ruled: Ruled) -> None:
    ruled.rule(
        audited("r", "method: COPY, metadata: {study: '7'}", "deny: closed")
        + audited("w", "method: PUT, object: x, metadata: {study: '7'}", "deny: closed")
    )
    counted(ruled)
    answer = ruled.proxy.call("COPY", "c/o", {"Destination": "c/x"})
    assert answer.status == 204, answer.data
    assert counted(ruled) == [f"{COUNTED}.deny"] * 2


def test_a_failed_lookup_is_logged_and_fails_no_request(ruled: Ruled) -> None:
    ruled.rule(audited("a", "method: GET, metadata: {study: '7'}", "deny: closed"))
    counted(ruled)
    ruled.swift.hooks["HEAD", OBJECT] = lambda request: Response(status=503, request=request)
    answer = ruled.get()
    assert (answer.status, answer.data) == (200, CONTENT)
    assert counted(ruled) == []
    assert "audited rules of" in str(ruled.proxy.logger.lines)


def test_no_rules_apply_to_their_own_container(ruled: Ruled) -> None:
    ruled.rule(audited("a", "method: GET", "deny: closed"))
    counted(ruled)
    assert ruled.get("storlet_rules/rules.yaml").status == 200
    assert counted(ruled) == []
