"""The tokens of a query of S3 Select, and the errors at them."""

from __future__ import annotations

import pytest

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("s3-select")


def test_the_end_of_a_query_is_taken_again_and_again() -> None:
    tokens = shared("select_tokens").Tokens("a")
    taken = [tokens.take() for _ in range(3)]
    assert [lexeme.text for lexeme in taken] == ["a", "", ""]


@pytest.mark.parametrize(
    ("text", "is_name"),
    [("station", True), ('"from"', True), ("from", False), ("HAVING", False), ("'a'", False)],
)
def test_a_reserved_word_is_a_name_in_quotes_only(text: str, is_name: bool) -> None:
    assert shared("select_tokens").Tokens(text).is_name() is is_name


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1.5", "line 1, column 1, at '1.5': want a whole number"),
        ("x", "line 1, column 1, at 'x': want a whole number"),
        ("", "line 1, column 1, at the end of the query: want a whole number"),
        (f"{1 << 63}", "want a number below 2^63"),
        ("9" * 5000, "want a number below 2^63"),
    ],
)
def test_a_fault_names_its_place(text: str, fault: str) -> None:
    tokens = shared("select_tokens").Tokens(text)
    with pytest.raises(shared("select_errors").SelectError) as raised:
        tokens.whole_number("ParseExpectedNumber")
    assert fault in str(raised.value)


def test_a_whole_number_is_taken() -> None:
    tokens = shared("select_tokens").Tokens(f"{(1 << 63) - 1} )")
    assert tokens.whole_number("ParseExpectedNumber") == (1 << 63) - 1
    assert tokens.skip(")") == ")"
