"""Counts of the operations that rules decide."""

from __future__ import annotations

from typing import Any

import pytest

from rules.model import All, Allow, Deny, Rule
from storlet_middleware.enforcement.rule_hits import RuleHits
from tests.unit.middleware.ruled_proxy import Ruled, rule
from tests.unit.middleware.support import ACCOUNT


class Log:
    """A logger of Swift with metrics."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.metrics: list[str] = []

    def info(self, text: str, *values: Any) -> None:
        self.lines.append(text % values)

    def increment(self, name: str) -> None:
        self.metrics.append(name)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def denying(name: str) -> Rule:
    return Rule(name, All(), Deny("no"))


@pytest.fixture
def log() -> Log:
    return Log()


def test_hits_are_logged_after_the_interval_and_start_again(log: Log) -> None:
    clock = Clock()
    hits = RuleHits(log, 60, clock)
    for name in ("a", "b", "a"):
        hits.count("AUTH_x y", denying(name))
    hits.count("AUTH_z", Rule("c", All(), Allow()))
    assert log.lines == []
    clock.now += 61
    hits.count("AUTH_z", denying("later"))
    assert log.lines == [
        "rules hits account=AUTH_x%20y seconds=61 a=2 b=1",
        "rules hits account=AUTH_z seconds=61 c=1",
    ]
    clock.now += 60
    hits.count("AUTH_z", denying("last"))
    assert log.lines[2:] == ["rules hits account=AUTH_z seconds=60 later=1"]


def test_metrics_count_by_action_also_without_the_log(log: Log) -> None:
    hits = RuleHits(log, 0)
    hits.count("AUTH_a", denying("a"))
    hits.count("AUTH_a", Rule("b", All(), Allow()))
    assert log.metrics == ["storlet.rules.decided.deny", "storlet.rules.decided.allow"]
    assert log.lines == []


def test_memory_and_lines_are_bounded_and_no_hit_is_lost(log: Log) -> None:
    clock = Clock()
    hits = RuleHits(log, 60, clock)
    for account in range(40):
        for number in range(1000):
            hits.count(f"AUTH_{account}", denying(f"r{number}"))
    clock.now += 60
    hits.count("AUTH_x", denying("last"))
    words = [word for line in log.lines for word in line.split()[4:]]
    assert sum(int(word.rpartition("=")[2]) for word in words) == 40_000
    assert len(words) <= 2_000 + 40
    assert len(log.lines) <= 2_000 // 20 + 2 * 40
    assert max(len(line) for line in log.lines) < 2_000
    assert any("(others)=" in line for line in log.lines)


def test_each_operation_is_counted_once_for_the_rule_that_decided_it(
    ruled: Ruled, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(
        RuleHits, "count", lambda _, account, rule: seen.append((account, rule.name))
    )
    ruled.rule(rule("closed", "container: c, method: GET", "deny: not now", mandatory=False))
    seen.clear()
    assert ruled.get().error == "access.rule"
    ruled.proxy.call("HEAD", "c/o")
    assert seen == [(ACCOUNT, "closed")]
    ruled.proxy.call("COPY", "c/o", {"Destination": "c/p"})
    assert seen == [(ACCOUNT, "closed")]


def test_an_audited_rule_is_counted_apart(log: Log) -> None:
    clock = Clock()
    hits = RuleHits(log, 60, clock)
    hits.count("AUTH_x", Rule("night", All(), Deny("no"), is_audited=True))
    clock.now += 60
    hits.count("AUTH_x", denying("night"))
    assert log.lines == ["rules hits account=AUTH_x seconds=60 night(audit)=1"]
    assert log.metrics == ["storlet.rules.audited.deny", "storlet.rules.decided.deny"]
