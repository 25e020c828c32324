"""Misspelt commands and options."""

from __future__ import annotations

import pytest

from tests.unit.client.conftest import Command


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["lst"], "Did you mean 'list'?"),
        (["rules", "who-cna"], "Did you mean 'who-can'?"),
        (["list", "--fromat", "json"], "--format"),
        (["list", "-f", "jsn"], "'json'"),
    ],
)
def test_the_nearest_known_word_is_named(command: Command, words: list[str], expected: str) -> None:
    result = command(*words)
    assert result.code == 2
    assert expected in result.err
