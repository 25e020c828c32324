"""The objects of a distribution; ``test_distributed`` has the other cases."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

import pytest

from storlet_middleware.errors import BadRequest
from storlet_middleware.flows.distribution import Distribution, Part, Selection
from storlet_middleware.flows.selection import objects_of
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.storlet_request import ObjectPath


class Listings:
    """The requests of a flow; answers pages of ``count`` names."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pages = 0

    def send(self, method: str, path: str, query: dict[str, str]) -> Answer:
        self.pages += 1
        first = int(query.get("marker", "-1")) + 1
        names = [f"{n:06}" for n in range(first, min(first + 2000, self.count))]
        return Answer("200 OK", [], [json.dumps([{"name": name} for name in names]).encode()])


def select(listings: Any, most: int, **wanted: str) -> int:
    distribution = Distribution(Selection("c", **wanted), Part("std:nop"))
    return len(objects_of(distribution, listings, most))


def test_all_pages_are_read() -> None:
    listings = Listings(4500)
    assert select(listings, 10_000) == 4500
    assert listings.pages == 4


def test_a_listing_is_not_read_without_an_end() -> None:
    listings = Listings(10**6)
    with pytest.raises(BadRequest, match="more than 1000 entries to look at: use prefix"):
        select(listings, 100, suffix="none")
    with pytest.raises(BadRequest, match="more than 100: select fewer"):
        select(listings, 100)
    assert listings.pages < 5


class Content:
    """The requests of a flow; answers with an object."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def send(self, method: str, path: str) -> Answer:
        return Answer("200 OK", [], [self.content])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"wrong\n" * 1000, "line 10: 'wrong': want /container/object$"),
        (b"/c/o\n" * 200 + b"wrong\n", "more than 100: select fewer"),
    ],
)
def test_no_more_lines_are_read_than_are_needed(content: bytes, text: str) -> None:
    distribution = Distribution(ObjectPath("c", "list"), Part("std:nop"))
    requests: Any = Content(content)
    with pytest.raises(BadRequest, match=text):
        objects_of(distribution, requests, 100)


def test_patterns_of_names_are_not_kept() -> None:
    before = fnmatch._compile_pattern.cache_info().currsize  # type: ignore[attr-defined]
    assert select(Listings(100), 100, glob="00001?") == 10
    assert fnmatch._compile_pattern.cache_info().currsize == before  # type: ignore[attr-defined]
