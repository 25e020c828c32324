"""Commands of the server's package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.unit.client.conftest import Command


def test_an_offline_check_is_passed_on(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("version: 1\nrules: []\n")
    result = command("rules", "check", "--json", str(file))
    assert (result.code, '"rules": 0' in result.out) == (0, True)


@pytest.mark.parametrize("words", [["sandboxes"], ["rules", "check", "x"]])
def test_without_the_package_its_place_is_named(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    result = command(*words)
    assert (result.code, "install swift-storlets" in result.err) == (3, True)
