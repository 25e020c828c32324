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
        self.headers: list[tuple[str, str]] = []

    def send(self, method: str, path: str) -> Answer:
        return Answer("200 OK", self.headers, [self.content])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"wrong\n" * 1000, "^/c/list: line 1: 'wrong': want .*; line 40: .*; and 62 more$"),
        (b"".join(b"/c/%d\n" % n for n in range(200)) + b"wrong\n", "^/c/list: more than 100 lin"),
        (
            b"/c/o\nx\n\n/c/p\n\xff\nc/o\n/c/" + b"n" * 1025 + b"\n",
            (
                "^/c/list: line 2: 'x': want /container/object; line 5: b'.xff': not UTF-8;"
                " line 6: /c/o is on line 1 already;"
                " line 7: '/c/n*: the name of the object has more than 1024 bytes$"
            ),
        ),
    ],
)
def test_all_faults_of_an_object_with_paths_come_at_once(content: bytes, text: str) -> None:
    distribution = Distribution(ObjectPath("c", "list"), Part("std:nop"))
    requests: Any = Content(content)
    with pytest.raises(BadRequest, match=text):
        objects_of(distribution, requests, 100)


def test_patterns_of_names_are_not_kept() -> None:
    before = fnmatch._compile_pattern.cache_info().currsize  # type: ignore[attr-defined]
    assert select(Listings(100), 100, glob="00001?") == 10
    assert fnmatch._compile_pattern.cache_info().currsize == before  # type: ignore[attr-defined]


def test_objects_that_are_there_twice_are_named_at_once() -> None:
    names = ("a", "b", "a", "c", "c")
    paths = tuple(ObjectPath("c", name) for name in names)
    requests: Any = None
    with pytest.raises(BadRequest, match=r"/c/a is there twice; objects: /c/c is there twice$"):
        objects_of(Distribution(paths, Part("std:nop")), requests, 100)


def test_a_large_object_of_unknown_length_has_no_paths() -> None:
    """Its end looks like a failure of Swift."""
    requests: Any = Content(b"/c/o\n")
    requests.headers = [("X-Object-Manifest", "c/parts")]
    distribution = Distribution(ObjectPath("c", "list"), Part("std:nop"))
    with pytest.raises(BadRequest, match="/c/list: a dynamic large object of unknown length"):
        objects_of(distribution, requests, 100)
    requests.headers.append(("Content-Length", "5"))
    assert objects_of(distribution, requests, 100) == [ObjectPath("c", "o")]
