"""Untrusted text in the operator's log."""

from __future__ import annotations

import pytest

from storlet_middleware.sandboxd import wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AUTH_a", "AUTH_a"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a\r\nERROR forged", '"a\\r\\nERROR forged"'),
        ("\x1b[2J", "\\x1b[2J"),
        ("ü", "\\xfc"),
        ('a "b" c', "\"a 'b' c\""),
        ("a\\nb", "a\\\\nb"),
        ("x" * 300, "x" * 200 + "..."),
    ],
)
def test_foreign_text_stays_one_value_of_one_line(text: str, expected: str) -> None:
    assert wording.shown(text) == expected
