"""Forms of output."""

from __future__ import annotations

import csv
import io
import json

import pytest
import yaml
from rich.console import Console

from storlet_client.cli import output
from storlet_client.cli.output import legible, show_one, show_rows

ROWS = [{"name": "a\x1b[31m", "size": 3, "list": ["x", "y"], "more": {"k": "v"}}]
COLUMNS = ("name", "size", "list", "more")


def test_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS, "table", "")
    show_one(ROWS[0], "table")
    assert "\x1b" not in capsys.readouterr().out
    assert legible("a\x07\nb") == "a\\x07\nb"


@pytest.mark.parametrize("columns", [120, 80, 70, 60, 40, 30])
def test_a_table_that_is_too_wide_is_folded_and_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    row = {"name": "n" * 30, "bytes": 12345, "access": "a b " * 9, "time": TIME, "failures": 3}
    monkeypatch.setattr(output, "console", lambda: Console(width=columns, highlight=False))
    show_rows([row] * 2, tuple(row), "table", "")
    lines = capsys.readouterr().out.splitlines()
    # A table that cannot be narrower is broken by the terminal.
    assert max(map(len, lines)) <= columns or columns == 30
    assert lines[0].endswith("FAILURES")
    text = "".join(lines)
    assert [text.count(each) for each in ("n", "12,345", "a", "3")] == [60, 2, 18, 4]
    assert not any(line.endswith(" ") for line in lines)
    assert ("n" * 30 in lines[1]) is (columns >= 70 or columns == 30)


TIME = "2026-11-26T07:10:10.589850"


def test_numbers_and_times_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"time": TIME, "bytes": 1234, "seconds": 8.3, "failures": "1000+", "ok": True}]
    show_rows(rows, tuple(rows[0]), "table", "")
    assert capsys.readouterr().out.splitlines() == [
        "TIME                  BYTES  SECONDS  FAILURES  OK",
        "2026-11-26 07:10:10Z  1,234     8.30     1000+  yes",
    ]


def test_an_error_breaks_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "/var/lib/storlets/" + "0123456789abcdef" * 4
    text = f'a long line of words\n  File "{folder}/a.py", line 1, in a function'
    code = '  File "a.py", line 1, in a function'
    assert output.explained(text) == f"a long line of words\n{code}"
    monkeypatch.setattr(output, "columns_of", lambda _stream: 12)
    assert output.explained(text) == f"a long line\n  of words\n{code}"


def test_one_thing_has_a_line_for_each_value_and_more_lines_are_indented(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {"name": "a", "traceback": "Traceback:\n  line 1\n", "is_current": True, "none": None}
    show_one(values, "table")
    assert capsys.readouterr().out.splitlines() == [
        "name        a",
        "traceback   Traceback:",
        "              line 1",
        "is_current  yes",
        "none        -",
    ]


def test_documents_have_all_values(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, ("name",), "json", "")
    assert json.loads(capsys.readouterr().out) == ROWS
    show_rows(ROWS, ("name",), "yaml", "")
    assert yaml.safe_load(capsys.readouterr().out) == ROWS


def test_csv_has_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS, "csv", "")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows == [{"name": "a\x1b[31m", "size": "3", "list": "x, y", "more": "k=v"}]


def test_an_empty_table_is_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([], COLUMNS, "table", "nothing there")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "nothing there\n")


def test_a_long_row_is_one_line_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"name": "x" * 500}], ("name",), "table", "")
    assert len(capsys.readouterr().out.splitlines()) == 2
