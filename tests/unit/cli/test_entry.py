"""The console script, with and without the package of users."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

import storlet_client.cli.main
from storlet_middleware.cli import __main__ as own
from storlet_middleware.cli import entry


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_package_of_users_has_the_whole_command(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    def find(name: str) -> Any:
        if not is_installed:
            raise PackageNotFoundError(name)

    monkeypatch.setattr(entry, "distribution", find)
    monkeypatch.setattr(own, "main", lambda: 1)
    monkeypatch.setattr(storlet_client.cli.main, "main", lambda: 2)
    assert entry.main() == (2 if is_installed else 1)


@pytest.mark.parametrize("words", [["deploy", "x"], ["rules", "put", "x"]])
def test_a_command_of_users_is_said_to_be_elsewhere(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        own.main(words)
    assert ended.value.code == 2
    assert "in the package storlet-client" in capsys.readouterr().err
