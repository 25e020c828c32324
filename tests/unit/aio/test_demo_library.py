"""The data, the expected results and the output of the end of the demo."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from storlet_middleware.aio import demo_library
from storlet_middleware.aio.client import Answer, Client
from tests.library.support import LibraryStorlet


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    message = http.client.HTTPMessage()
    for key, value in headers.items():
        message[key.replace("_", "-")] = value
    return Answer(status, message, body, 0.1)


@cache
def query_result() -> bytes:
    """The outputs of the objects, one after the other."""
    given = {"query": demo_library.QUERY, "output": "jsonl"}
    contents = map(demo_library.content, demo_library.STATIONS)
    return b"".join(LibraryStorlet("sql").run(content, given).output for content in contents)


@cache
def picture() -> bytes:
    edges = ",".join(map(str, demo_library.EDGES))
    given = {"column": "degrees", "histogram": edges, "output": "svg"}
    return LibraryStorlet("aggregate").run(demo_library.content("Basel"), given).output


@dataclass(frozen=True)
class Node(Client):
    """A node whose answers are known, by method; ``changes`` are others."""

    changes: Mapping[str, Answer]

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        known = {
            "PUT": answer(201),
            "POST": answer(200, query_result()),
            "COPY": answer(201),
            "GET": answer(200, picture(), Content_Type="image/svg+xml"),
        }
        return {**known, **self.changes}[method]


def test_the_expected_rows_are_those_of_the_query() -> None:
    assert demo_library.rows_of(query_result()) == demo_library.expected_rows()


def test_the_expected_counts_are_those_of_the_picture() -> None:
    counts = [count for _, count in demo_library.bars(picture())]
    assert counts == demo_library.expected_counts()
    assert sum(counts) == 31


def test_both_results_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo_library.show(Node("", "", {}), "demo")
    shown = capsys.readouterr().out
    assert "\n  station  days  coldest  warmest\n  Basel " in shown
    assert "#" * 30 in shown
    assert "NOT AS EXPECTED" not in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"POST": answer(200, b'{"station": "Basel", "days": 1}\n')},
        {"POST": answer(503, b"busy")},
        {"COPY": answer(503, b"busy")},
        {"GET": answer(200, b"<svg/>", Content_Type="image/svg+xml")},
    ],
)
def test_a_wrong_result_is_marked(
    changes: dict[str, Answer], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not demo_library.show(Node("", "", changes), "demo")
    assert capsys.readouterr().out.count("NOT AS EXPECTED") == 1


def test_a_machine_without_the_larger_image_names_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = b"weather/Basel.csv: std:sql needs the Python package duckdb, which the image lacks"
    assert demo_library.show(Node("", "", {"POST": answer(422, text)}), "demo")
    assert "not on this machine: weather/Basel.csv: std:sql needs" in capsys.readouterr().out
