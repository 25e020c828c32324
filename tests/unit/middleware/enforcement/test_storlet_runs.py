"""The storlets that rules require: requests and plan."""

from __future__ import annotations

from storlet_middleware import names
from tests.unit.middleware.ruled_proxy import BOB, CONTENT, UPPER, Ruled, assert_closed, rule


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
