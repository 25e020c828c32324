"""The last line of a run on a terminal."""

from __future__ import annotations

import pytest

from storlet_client.cli import summary

USAGE = "cpu=0.000387;peak-memory=15360000;in=344;out=0"


def test_usage_has_units() -> None:
    assert summary.usage_of(USAGE) == [
        "CPU 0.387 ms",
        "memory 15.4 MB",
        "in 344 bytes",
        "out 0 bytes",
    ]
    assert summary.usage_of("cpu=71.5;new=3") == ["CPU 71.50 s", "new 3"]
    assert summary.usage_of("") == []


def test_facts_of_an_answer() -> None:
    headers = {"x-storlet-ran-on": "object", "x-storlet-usage": "in=1", "x-storlet-invocation": "t"}
    facts = ["ran on the object node", "", "in 1 byte", "t"]
    assert summary.facts_of(headers) == facts
    assert not any(summary.facts_of({}))


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (0, ""),
        (80, "1.50 s · ran here · tx1\n"),
        (20, "1.50 s · ran here\ntx1\n"),
        (3, "1.50 s\nran here\ntx1\n"),
    ],
)
def test_a_line_breaks_between_facts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, shown: str
) -> None:
    monkeypatch.setattr(summary, "columns_of", lambda _stream: columns)
    summary.show(1.5, ["ran here", "", "tx1"])
    assert capsys.readouterr() == ("", shown)
