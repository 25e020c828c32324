"""The demo's judgement of an answer, and the one line it shows of it."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from storlet_middleware.aio import demo
from storlet_middleware.aio.client import Answer
from storlet_middleware.aio.demo import Sample


def answer(status: int, body: bytes = b"", *, broken: bool = False, **headers: str) -> Answer:
    message = http.client.HTTPMessage()
    for key, value in headers.items():
        message[key.replace("_", "-")] = value
    return Answer(status, message, body, 0.1, broken)


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    (tmp_path / "in").write_bytes(b"12345")
    (tmp_path / "out").write_bytes(b"54321")
    manifest = {"name": "x.py", "input": "in", "expected": "out", "parameters": {"a": "b c"}}
    return Sample(tmp_path, manifest, tmp_path / "x.py")


def test_the_complete_expected_output_is_right(sample: Sample) -> None:
    assert sample.is_right(answer(200, b"54321"))
    assert not sample.is_right(answer(200, b"5432"))
    assert not sample.is_right(answer(200, b"54321", broken=True))
    assert not sample.is_right(answer(503, b"54321"))


def test_an_expected_failure_is_right_only_with_its_code(sample: Sample) -> None:
    failing = Sample(
        sample.folder, {**sample.manifest, "expected_error": "storlet.failed"}, sample.code
    )
    assert failing.is_right(answer(422, X_Storlet_Error="storlet.failed"))
    assert not failing.is_right(answer(422, X_Storlet_Error="storlet.load"))
    assert not failing.is_right(answer(200, b"54321"))


def test_further_inputs_are_named_and_quoted(sample: Sample) -> None:
    several = Sample(sample.folder, {**sample.manifest, "input": ["in", "o t"]}, sample.code)
    assert several.headers["X-Storlet-Extra-Resources"] == f"/demo/{sample.folder.name}/o%20t"
    assert "X-Storlet-Extra-Resources" not in sample.headers


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (answer(200, b"first\nsecond"), "first"),
        (answer(200, b""), ""),
        (answer(200, b"\x89PNG\r\n\x1a\n"), "(binary: 89 50 4e 47 ...)"),
        (answer(200, b"\x1b[2Jgone"), "(binary: 1b 5b 32 4a 67 6f 6e 65 ...)"),
        (answer(422, b"x", X_Storlet_Error="storlet.failed"), "422 storlet.failed"),
        (answer(404, b"Not found"), "404 Not found"),
        (answer(200, b"x" * 60), "x" * 41 + "..."),
    ],
)
def test_the_line_shown_is_one_printable_line(given: Answer, shown: str) -> None:
    assert demo.gist(given) == shown
