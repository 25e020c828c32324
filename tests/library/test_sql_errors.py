"""The errors of DuckDB in the terms of a storlet: subject, place, advice, and no path."""

from __future__ import annotations

import pytest

from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
QUERY = "SELECT nope\nFROM input"


@pytest.mark.parametrize(
    ("error", "query", "expected"),
    [
        ("Some Error: no", "", "Some Error: no"),
        ("Some Error: no", QUERY, "query: Some Error: no"),
        (
            "Binder Error: no column\n\nLINE 2: SELECT nope\n               ^",
            QUERY,
            "query: line 1, at 'nope': Binder Error: no column",
        ),
        ("IO Error: in file '/proc/self/fd/7' x", "", "IO Error: the object x"),
        ("CSV Error on Line: 7", "", "CSV Error on Line: 7 (types=text reads all columns as text)"),
        ("x: the object: column 'a': bad", QUERY, "the object: column 'a': bad"),
        (
            "Out of Memory Error: full",
            QUERY,
            "query: needs more memory than memory-mib=64: sort less, or raise memory-mib (Out of Memory Error: full)",
        ),
    ],
)
def test_an_error_is_one_line(error: str, query: str, expected: str) -> None:
    errors = shared("sql_errors").Errors("query", "sort less, or ", 64)
    assert str(errors.explained(Exception(error), 1, query)) == expected


def test_a_reader_of_some_lines_has_no_numbers_of_lines() -> None:
    errors = shared("sql_errors").Errors("query", "", 64)
    errors.has_all_lines = False
    assert " on Line" not in str(errors.explained(Exception("CSV Error on Line: 7"), 0))
