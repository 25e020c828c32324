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


STORLETS = [
    {
        "name": "csv_filter.py", "language": "python", "bytes": 6862, "limits": "memory=128M",
        "access": ["test2:tester2 on samples", "test3:tester3 on samples"], "failures": 3,
    },
    {"name": "fruit.storlet", "language": "python", "bytes": 1574, "failures": 0},
]  # fmt: skip


@pytest.mark.parametrize("columns", [120, 80, 60, 40, 30])
def test_values_without_room_in_the_line_are_below_it_with_whole_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setattr(output, "console", lambda: Console(width=columns, highlight=False))
    show_rows(STORLETS, tuple(STORLETS[0]), "table", "")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not any(line.endswith(" ") for line in lines)
    words = " ".join(lines).split()
    for word in ("csv_filter.py", "memory=128M", "test2:tester2", "samples,", "6,862", "1,574"):
        assert words.count(word) == 1, word
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "NAME", "csv_filter.py", "fruit.storlet",
    ]  # fmt: skip


def test_the_widest_texts_are_the_first_below_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "console", lambda: Console(width=50, highlight=False))
    show_rows(STORLETS, tuple(STORLETS[0]), "table", "")
    assert capsys.readouterr().out.splitlines() == [
        "NAME           LANGUAGE  BYTES  FAILURES",
        "csv_filter.py  python    6,862         3",
        "  LIMITS  memory=128M",
        "  ACCESS  test2:tester2 on samples, test3:tester3",
        "          on samples",
        "fruit.storlet  python    1,574         0",
    ]


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


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2026-11-23 22:31:45", "2026-11-23T22:31:45Z"),
        ("2026-11-23T22:31:45.310910", "2026-11-23T22:31:45.310910Z"),
        ("2026-11-23T22:31:45+00:00", "2026-11-23T22:31:45Z"),
        ("2026-11-23T22:31:45Z", "2026-11-23T22:31:45Z"),
        ("yesterday", "yesterday"),
    ],
)
def test_times_for_programs_have_one_form(
    capsys: pytest.CaptureFixture[str], given: str, shown: str
) -> None:
    row = {"modified": given, "name": given, "set": None}
    output.show_rows([row], ("modified", "name"), "csv", "")
    assert capsys.readouterr().out == f"modified,name\n{shown},{given}\n"
    output.show_rows([row], (), "json", "")
    output.show_one(row, "json")
    decoder, text = json.JSONDecoder(), capsys.readouterr().out
    rows, end = decoder.raw_decode(text)
    assert rows == [decoder.raw_decode(text[end:].strip())[0]]
    assert rows == [{**row, "modified": shown}]


def test_a_traceback_that_repeats_the_message_is_left_out() -> None:
    text = "storlet: 422 storlet.load: LoadError: module a has no class B; nothing was changed"
    repeated = f"{text}\n\nstorlet_daemon.worker.loader.LoadError: module a has no class B"
    assert output.explained(repeated) == text
    for more in (
        "\nfault\nother: nothing was changed",
        "\n\nValueError: another",
        "\n\nTraceback:\n  File x\nLoadError: module a",
    ):
        assert output.explained(text + more) == text + more
