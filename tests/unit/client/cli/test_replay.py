"""``replay``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storlet_client import replay as replays
from storlet_client.local import repeat
from storlet_client.replay import Ran
from storlet_client.storlets import Storlets
from tests.unit.client.conftest import Command
from tests.unit.client.test_replay import RECORD


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The record of every run; a plain storlet needs no request for versions."""
    made = {**RECORD, "storlets": [{"name": "up.py", "hash": "5f"}]}
    monkeypatch.setattr(Storlets, "invocation", lambda *_: made)
    return made


def test_equal_runs_give_zero_and_different_ones_one(
    command: Command, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "on_cluster", lambda *_: Ran("ok", "", 3, "11"))
    result = command("replay", "tx1-1")
    assert result.code == 0, result.err
    assert result.out.splitlines()[1].split() == ["outcome", "ok", "ok", "yes"]
    assert result.out.splitlines()[3].split() == ["sha256", "unknown", "11", "-"]
    monkeypatch.setattr(replays, "on_cluster", lambda *_: Ran("storlet.failed", "no"))
    result = command("replay", "tx1-1", "-f", "csv")
    assert result.code == 1
    assert "outcome,ok,storlet.failed,False" in result.out
    assert "no" in command("replay", "tx1-1").out.splitlines()[1].split()


def test_programs_get_values_of_their_kinds(
    command: Command, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "on_cluster", lambda *_: Ran("ok", "", 4, "11"))
    rows = json.loads(command("replay", "tx1-1", "-f", "json").out)
    assert rows == [
        {"fact": "outcome", "recorded": "ok", "repeated": "ok", "same": True},
        {"fact": "bytes", "recorded": 3, "repeated": 4, "same": False},
        {"fact": "sha256", "recorded": None, "repeated": "11", "same": None},
    ]


def test_a_run_that_cannot_be_repeated_is_refused(command: Command, record: dict[str, Any]) -> None:
    record |= {"method": "PUT", "outcome": "cancelled"}
    result = command("replay", "tx1-1")
    assert (result.code, result.out) == (4, "")
    assert "tx1-1: it is a PUT" in result.err
    assert "its client left" in result.err


def test_a_local_repetition_stores_its_output(
    command: Command, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def here(_storlets: Any, _record: Any, _call: Any, output: Any, _passing: Any) -> Ran:
        output.write(b"abc")
        return Ran("ok", "", 3, "11")

    monkeypatch.setattr(repeat, "here", here)
    target = tmp_path / "out"
    assert command("replay", "tx1-1", "--local", "-o", str(target)).code == 0
    assert target.read_bytes() == b"abc"
