"""``query``."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.cli import query
from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server

QUERY = "SELECT * FROM input"


@pytest.fixture
def answer(server: Server) -> None:
    server.on("GET", "/c/o.csv", Reply(200, {}, b'name,n,n\n"a ""b""\nc",1,\nd,23,x\n'))


@pytest.mark.usefixtures("answer")
def test_a_pipe_has_the_bytes_and_a_table_is_on_request(command: Command) -> None:
    assert command("query", QUERY, "c/o.csv").out == 'name,n,n\n"a ""b""\nc",1,\nd,23,x\n'


@pytest.mark.usefixtures("answer")
def test_a_table_has_all_rows_and_names(command: Command) -> None:
    lines = command("query", QUERY, "c/o.csv", "-f", "table").out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "N", "N", "(2)"], ["a", '"b"\\nc', "1"], ["d", "23", "x"]
    ]  # fmt: skip


@pytest.mark.usefixtures("answer")
def test_a_file_has_the_bytes(command: Command, tmp_path: Path) -> None:
    place = tmp_path / "rows.csv"
    assert command("query", QUERY, "c/o.csv", "-o", str(place)).code == 0
    assert place.read_bytes().startswith(b'name,n,n\n"a')


def test_a_long_result_is_several_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(query, "TABLE_ROWS", 2)
    query.show_tables([b"n\n1\n2\n", b"3\n", b"4\n5"])
    assert capsys.readouterr().out.split() == ["N", "1", "2", "N", "3", "4", "N", "5"]


def test_a_result_without_rows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    query.show_tables([b"n\n"])
    assert capsys.readouterr().err == "no rows\n"


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_values_are_joined_from_chunks(chunk: int) -> None:
    data = 'a,é\n"x\ny",\0\n'.encode()
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    assert list(query.lines_of(chunks)) == ["a,é\n", '"x\n', 'y",\ufffd\n']


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["c/o", "-f", "table", "-o", "file"], "a table is for standard output"),
        (["c/o", "--suffix", "x"], "leave out the object"),
        (["/"], "want CONTAINER/OBJECT"),
        (["c/o", "-p", "output=csv"], "parameter 'output': is given otherwise"),
    ],
)
def test_contradictions_are_refused(command: Command, words: list[str], text: str) -> None:
    result = command("query", QUERY, *words)
    assert (result.code, text in result.err) == (3, True)
