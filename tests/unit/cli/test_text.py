"""Tables, durations and untrusted names, for a terminal."""

from __future__ import annotations

import pytest

from storlet_middleware.cli import text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (7300, "2 h"), (200_000, "2 d")],
)
def test_durations_are_short(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_numbers_are_right_and_lines_end_with_their_text() -> None:
    assert text.table(("NAME", "RUNS"), [("a", 7), ("longer", 12)], right=("RUNS",)) == (
        "NAME    RUNS\na          7\nlonger    12"
    )


def test_texts_of_all_scripts_stay_legible() -> None:
    assert (
        text.legible("Größe 大きさ \x1b[2J\u202e\n\ud800")
        == "Größe 大きさ \\x1b[2J\\u202e\\n\\ud800"
    )


@pytest.mark.parametrize("shown", ["", "NAME", "\x1b[31mred", "a\u202eb", "x" * 500, "\ud800"])
def test_a_name_of_a_tenant_is_short_printable_ascii(shown: str) -> None:
    safe = text.name(shown)
    assert safe.isascii()
    assert safe.isprintable()
    assert len(safe) < 60 * 12
