"""The pieces of a distribution, and the version that all parts of an object are of."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from storlet_middleware import errors
from storlet_middleware.errors import BadRequest, StorletError
from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.flows.distribution import LISTING, Distribution, Part
from storlet_middleware.flows.parts import Piece, pieces_of
from storlet_middleware.flows.splits import Outcome, Splits
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.storlet_request import ObjectPath

PATHS = [ObjectPath("c", "a"), ObjectPath("c", "b")]


class Requests(CallerRequests):
    """Gives the same answer each time, and keeps the requests."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.sent: list[tuple[str, str, dict[str, str]]] = []

    def send(self, method: str, path: str, headers: Any = None, query: Any = None) -> Answer:
        self.sent.append((method, path, dict(headers or {})))
        return self._answer


def head(size: int, etag: str = "abc") -> Requests:
    headers = [("Content-Length", str(size)), ("Etag", etag)]
    return Requests(Answer("200 OK", headers, []))


def test_without_parts_objects_are_whole_and_not_looked_at() -> None:
    requests = head(1)
    assert pieces_of(PATHS, 0, requests, 2) == [Piece(path) for path in PATHS]
    assert requests.sent == []


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 1000, 2**40 + 1])
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_parts_have_each_byte_once(size: int, count: int) -> None:
    requests = head(size, '"abc"')
    pieces = pieces_of(PATHS[:1], count, requests, 99)
    assert [(method, path) for method, path, _ in requests.sent] == [("HEAD", "c/a")]
    assert len(pieces) == max(min(size, count), 1)
    assert {(piece.path, piece.etag) for piece in pieces} == {(PATHS[0], "abc")}
    at = 0
    for piece in pieces:
        first, last = map(int, piece.scan_range.removeprefix("bytes=").split("-"))
        assert first == at
        at = last + 1
    assert at == size or (at, size) == (1, 0)


def test_the_number_of_parts_is_bounded() -> None:
    with pytest.raises(BadRequest, match="2 objects with 50 parts: want at most 99 parts"):
        pieces_of(PATHS, 50, head(1000), 99)


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (Answer("404 Not Found", [], []), 404, "/c/a: HEAD: 404"),
        (Answer("403 Forbidden", [], []), 403, "/c/a: HEAD: 403"),
        (Answer("503 Busy", [], []), 503, "/c/a: HEAD: 503"),
        (Answer("200 OK", [("Content-Length", "7")], []), 400, "size and ETag are not known"),
        (Answer("200 OK", [("Etag", "abc")], []), 400, "size and ETag are not known"),
    ],
)
def test_an_object_without_size_or_etag_is_an_error(answer: Answer, status: int, text: str) -> None:
    with pytest.raises(StorletError, match=text) as caught:
        pieces_of(PATHS, 2, Requests(answer), 99)
    assert caught.value.status == status


def outcome_of(requests: Requests, piece: Piece) -> Outcome:
    given = Distribution((), Part("std:sql-part", {"query": "q"}), reports_failures=True)
    running = Splits(requests, given, [piece], None)
    try:
        [outcome] = running.outcomes(LISTING)
        return outcome
    finally:
        running.close()


def test_a_split_reads_its_part_of_one_version() -> None:
    requests = Requests(Answer("200 OK", [("X-Storlet-Ran-On", "object")], [b"x"]))
    outcome = outcome_of(requests, Piece(PATHS[0], "bytes=0-9", "abc"))
    ((method, path, headers),) = requests.sent
    assert (method, path, headers["If-Match"]) == ("GET", "c/a", '"abc"')
    assert {"query:q", "scan-range:bytes=0-9"} <= set(map(unquote, headers.values()))
    assert outcome.scan_range == "bytes=0-9"
    assert not outcome.is_failure


def test_an_object_that_is_replaced_is_an_error() -> None:
    requests = Requests(Answer("412 Precondition Failed", [], []))
    outcome = outcome_of(requests, Piece(PATHS[0], "bytes=0-9", "abc"))
    assert (outcome.code, len(requests.sent)) == (errors.INPUT_CHANGED, 1)
    text = "/c/a bytes=0-9: the object was replaced while its parts were read"
    assert str(outcome.error) == text
