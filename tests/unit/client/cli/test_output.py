"""Forms of output."""

from __future__ import annotations

import csv
import io
import json

import pytest
import yaml

from storlet_client.cli.output import legible, show_one, show_rows

ROWS = [{"name": "a\x1b[31m", "size": 3, "list": ["x", "y"], "more": {"k": "v"}}]
COLUMNS = ("name", "size", "list", "more")


def test_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS, "table", "")
    show_one(ROWS[0], "table")
    assert "\x1b" not in capsys.readouterr().out
    assert legible("a\x07\nb") == "a\\x07\nb"


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
