from __future__ import annotations

import json

import pytest

from storlet_middleware.local import requests
from storlet_middleware.local.requests import InputFile, Malformed, Reply, Request


def test_a_request_is_parsed() -> None:
    line = {"do": "run", "bundle": "/b", "inputs": [{"path": "/a", "metadata": {"k": "v"}}]}
    assert requests.parse(json.dumps(line).encode()) == Request(
        "run", "/b", (InputFile("/a", {"k": "v"}),)
    )


def test_files_for_further_outputs_are_known_where_there_are_some() -> None:
    line = {"do": "run", "bundle": "/b", "outputs": ["/o"]}
    assert requests.parse(json.dumps(line).encode()) == Request("run", "/b", outputs=("/o",))
    assert b"further_metadata" not in Reply("ok").line()
    assert json.loads(Reply("ok", further_metadata=({},)).line())["further_metadata"] == [{}]


def test_secrets_are_in_no_text_of_a_request() -> None:
    line = {"do": "run", "bundle": "/b", "secrets": {"key": "AHZhbHVl"}}
    request = requests.parse(json.dumps(line).encode())
    assert request.secrets == {"key": b"\0value"}
    assert "value" not in repr(request)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"do": "stop", "bundle": "/b"}',
        b'{"do": "run", "bundle": "/b", "colour": "red"}',
        b'{"do": "run", "bundle": "/b", "inputs": [{"path": "/a"}]}',
        b'{"do": "run", "bundle": "/b", "secrets": {"key": "*"}}',
    ],
)
def test_another_line_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed, match="a malformed request"):
        requests.parse(line)


def test_answers_are_lines_of_json() -> None:
    line = Reply("ok", log="two\nlines").line()
    assert line.count(b"\n") == 1
    assert json.loads(line)["log"] == "two\nlines"
    assert json.loads(requests.fault_line("no Docker")) == {"fault": "no Docker"}
