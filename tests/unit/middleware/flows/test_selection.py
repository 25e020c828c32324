"""The objects of a distribution; ``test_distributed`` has the other cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storlet_middleware.errors import BadRequest
from storlet_middleware.flows.distribution import Distribution, Part, Selection
from storlet_middleware.flows.selection import objects_of
from storlet_middleware.wsgi.answer import Answer


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
