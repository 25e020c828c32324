"""A worker of pytest-xdist reports tests that pass once, and everything else in full."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import reports

PASSES = ("passed", "passed", "passed")


def sent(
    monkeypatch: pytest.MonkeyPatch, outcomes: tuple[str, ...], **options: object
) -> list[str] | None:
    """Reports that a worker sends of a test with these outcomes; None if pytest reports it."""
    phases = ("setup", "call", "teardown") if len(outcomes) == 3 else ("setup", "teardown")
    made = [
        SimpleNamespace(when=when, passed=outcome == "passed", start=number, stop=number + 1)
        for number, (when, outcome) in enumerate(zip(phases, outcomes, strict=True))
    ]
    monkeypatch.setattr(reports, "runtestprotocol", lambda *_, **__: made)
    found: list[Any] = []

    def keep(report: object) -> None:
        found.append(report)

    hook = SimpleNamespace(pytest_runtest_logreport=keep)
    config = SimpleNamespace(
        workerinput={}, option=SimpleNamespace(**{"verbose": 0, "durations": None} | options)
    )
    item: Any = SimpleNamespace(config=config, ihook=hook)
    if reports.pytest_runtest_protocol(item, None) is None:
        return None
    return [f"{one.when} {one.start}-{one.stop}" for one in found]


def test_a_test_that_passes_is_one_report_from_begin_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sent(monkeypatch, PASSES) == ["call 0-3"]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("failed", "passed"), ["setup 0-1"]),
        (("skipped", "passed"), ["setup 0-1"]),
        (("failed", "failed"), ["setup 0-1", "teardown 1-2"]),
        (("passed", "failed", "passed"), ["call 0-3"]),
        (("passed", "passed", "failed"), ["call 0-3", "teardown 2-3"]),
    ],
)
def test_each_failure_and_each_skip_is_sent(
    monkeypatch: pytest.MonkeyPatch, outcomes: tuple[str, ...], expected: list[str]
) -> None:
    assert sent(monkeypatch, outcomes) == expected


@pytest.mark.parametrize("option", ["verbose", "durations"])
def test_sessions_that_request_more_get_all_reports(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    assert sent(monkeypatch, PASSES, **{option: 1}) is None
