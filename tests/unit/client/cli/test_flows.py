"""``library`` and ``distribute``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.client.conftest import Command
from tests.unit.client.server import Reply, Server

ROWS = [{"name": "std:grep", "version": "1.0", "summary": "s", "parameters": {"a": {}, "b": {}}}]


def test_the_library_is_listed(server: Server, command: Command) -> None:
    server.on("GET", "", Reply(200, body=json.dumps(ROWS).encode()))
    result = command("library", "--format", "json")
    assert json.loads(result.out) == ROWS
    assert "storlet-library" in server.received[-1].path
    assert "a b" in command("library", "--format", "csv").out


def test_the_parameters_of_a_storlet_are_listed(server: Server, command: Command) -> None:
    parameters = {
        "pattern": {"type": "string", "required": True, "help": "a text"},
        "syntax": {"type": "string", "default": "fixed", "choices": ["fixed", "re2"], "help": "s"},
        "context": {"type": "integer", "default": 0, "min": 0, "max": 100},
        "most": {"type": "integer", "default": 5, "min": 1},
        "exact": {"type": "boolean", "default": False},
    }
    described = {"name": "std:grep", "parameters": parameters}
    server.on("GET", "", Reply(200, body=json.dumps([described]).encode()))
    assert command("library", "std:grep", "-f", "csv").out.splitlines() == [
        "parameter,type,default,values,help",
        "pattern,string,required,,a text",
        'syntax,string,fixed,"fixed, re2",s',
        "context,integer,0,0 to 100,",
        "most,integer,5,at least 1,",
        "exact,boolean,false,,",
    ]
    assert json.loads(command("library", "std:grep", "-f", "json").out) == described
    result = command("library", "std:gerp")
    assert result.code == 4
    assert "no std:gerp in the library of the cluster; did you mean std:grep?" in result.err


@pytest.mark.parametrize(
    ("words", "document"),
    [
        (["std:nop", "c"], {"objects": {"container": "c"}, "split": {"storlet": "std:nop"}}),
        (
            [
                "up.py", "c", "--prefix", "a/", "--suffix", ".x", "--glob", "*", "-p", "k=v",
                "--metadata", "Colour=red", "--merge", "std:sum", "--merge-parameter", "m=n",
                "--concurrency", "3", "--parts", "4",
            ],
            {
                "objects": {
                    "container": "c", "prefix": "a/", "suffix": ".x", "glob": "*",
                    "metadata": {"Colour": "red"},
                },
                "split": {"storlet": "up.py", "parameters": {"k": "v"}},
                "merge": {"storlet": "std:sum", "parameters": {"m": "n"}},
                "concurrency": 3,
                "parts": 4,
            },
        ),
        (
            ["up.py", "c", "--merge", "concat"],
            {"objects": {"container": "c"}, "split": {"storlet": "up.py"}, "merge": "concat"},
        ),
        (
            ["up.py", "c", "--to", "results/2026/o ü"],
            {
                "objects": {"container": "c"}, "split": {"storlet": "up.py"},
                "output": "/results/2026/o ü",
            },
        ),
    ],
)  # fmt: skip
def test_objects_of_a_container(
    server: Server, command: Command, words: list[str], document: object
) -> None:
    server.on("POST", "", Reply(200, body=b"a line\n"))
    result = command("distribute", *words)
    assert (result.code, result.out) == (0, "a line\n")
    received = server.received[-1]
    assert json.loads(received.body) == document
    assert received.headers["x-run-storlet"] == "std:distributed"
    assert received.headers["accept"] == "application/x-ndjson"


def test_objects_of_a_file_and_a_file_for_the_answer(
    server: Server, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "paths").write_text("c/o\n\nc/p\n")
    server.on("POST", "", Reply(200, body=b'{"outcome": "ok"}\n'))
    out = tmp_path / "out"
    words = ["up.py", "--objects", str(tmp_path / "paths"), "--report", "-o", str(out)]
    assert command("distribute", *words).code == 0
    assert out.read_bytes() == b'{"outcome": "ok"}\n'
    assert json.loads(server.received[-1].body) == {
        "objects": ["c/o", "c/p"], "split": {"storlet": "up.py"}, "on-failure": "report"
    }  # fmt: skip


LINES = b"""\
{"path": "/c/a", "outcome": "ok", "code": "ok", "output": "the word failed"}
{"path": "/c/b", "outcome": "failed", "code": "storlet.failed", "message": "no"}
{"path": "/c/c", "outcome": "failed", "code": "storlet.failed", "message": "no"}
"""
SUMMARY = b'{"output": "/r/o", "bytes": 9, "etag": "e", "objects": 12, "failed": 1}\n'


@pytest.mark.parametrize(
    ("words", "body", "text"),
    [
        ([], LINES, "failures: 2; the report has the reasons\n"),
        (["--to", "r/o"], SUMMARY, "failures: 1; r/o has the reasons\n"),
        (["--to", "r/o"], SUMMARY.replace(b"1}", b"0}"), ""),
    ],
)
def test_failures_of_a_report_are_an_exit_code(
    server: Server, command: Command, words: list[str], body: bytes, text: str
) -> None:
    server.on("POST", "", Reply(200, body=body))
    result = command("distribute", "up.py", "c", "--report", *words)
    assert (result.code, result.err) == (1 if text else 0, text)
    assert result.out.encode() == body


@pytest.mark.parametrize("body", [b"result\n", b"[]\n", b"{}\n", b"1\n", b'{"failed": "x"}\n'])
def test_an_answer_that_is_no_report_is_an_error(
    server: Server, command: Command, body: bytes
) -> None:
    server.on("POST", "", Reply(200, body=body))
    refused = command("distribute", "up.py", "c", "--report", "--merge", "concat")
    assert (refused.code, "--report excludes --merge" in refused.err) == (3, True)
    result = command("distribute", "up.py", "c", "--report")
    assert (result.code, "a line that is none of a report" in result.err) == (5, True)


@pytest.mark.parametrize(
    "words",
    [
        ["up.py"],
        ["up.py", "c", "--objects", __file__],
        ["up.py", "--objects", __file__, "--prefix", "x"],
        ["up.py", "c", "--merge-parameter", "a=b"],
        ["up.py", "c", "--merge", "concat", "--merge-parameter", "a=b"],
        ["up.py", "c", "--to", "results"],
    ],
)
def test_contradictions_are_refused_before_any_request(
    server: Server, command: Command, words: list[str]
) -> None:
    assert command("distribute", *words).code == 3
    assert server.calls() == []


@pytest.mark.parametrize(
    ("content", "paths"),
    [
        (b"c/a\nb/x", ["c/a", "b/x"]),
        (b"c/a\r\n\r\nc/b\r\n", ["c/a", "c/b"]),
        ("c/a\u2028b\x85\x0c\nc/e\r\n c/ \n".encode(), ["c/a\u2028b\x85\x0c", "c/e\r", " c/ "]),
        (b"c/a\nb\0\0c/..\0c//\r\0", ["c/a\nb", "c/..", "c//\r"]),
    ],
)
def test_names_of_a_list_are_as_they_are(
    server: Server, command: Command, tmp_path: Path, content: bytes, paths: list[str]
) -> None:
    (tmp_path / "paths").write_bytes(content)
    server.on("POST", "", Reply(200, body=b"result"))
    assert command("distribute", "up.py", "--objects", str(tmp_path / "paths")).code == 0
    assert json.loads(server.received[-1].body)["objects"] == paths


def test_a_list_that_is_not_utf_8_names_the_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "paths"
    path.write_bytes(b"c/a\nc/\xff\n")
    result = command("distribute", "up.py", "--objects", str(path))
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        f"storlet: --objects {path}: line 2 is not UTF-8: save the file as UTF-8\n"
    )
