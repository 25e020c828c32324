"""The length of a dynamic large object by its segments."""

from __future__ import annotations

import pytest
from swift.common.swob import Response

from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.dynamic_object import listed_bytes
from tests.unit.middleware.support import ACCOUNT, FakeSwift

PLACE = ("v1", ACCOUNT)


def test_the_sizes_of_the_segments_are_added_over_all_pages(swift: FakeSwift) -> None:
    for number in range(10_001):
        swift.put("c", f"grün/{number:05}", b"abc")
    swift.put("c", "other", b"more")
    swift.put("d", "grün/1", b"more")
    assert listed_bytes(swift, {}, PLACE, "c/gr%C3%BCn/") == 3 * 10_001


def test_a_container_that_was_deleted_has_no_bytes(swift: FakeSwift) -> None:
    assert listed_bytes(swift, {}, PLACE, "gone/seg/") == 0


def test_a_listing_that_fails_is_not_an_empty_one(swift: FakeSwift) -> None:
    swift.put("c", "seg/1", b"abc")
    swift.hooks["GET", f"/v1/{ACCOUNT}/c"] = lambda request: Response(status=503, request=request)
    with pytest.raises(BackendFailed, match="503"):
        listed_bytes(swift, {}, PLACE, "c/seg/")
