"""Pre-authorised requests of the filter itself."""

from __future__ import annotations

import io

import pytest
from swift.common import constraints
from swift.common.swob import Response

from storlet_middleware import names
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi import own_requests
from tests.unit.middleware.support import ACCOUNT, FakeSwift

OBJECT = f"/v1/{ACCOUNT}/c/o?"
CONTAINER = f"/v1/{ACCOUNT}/c?"


def test_a_request_names_its_source_and_keeps_the_clients_query_out(swift: FakeSwift) -> None:
    swift.put("c", "o", b"data")
    answer = own_requests.exchange(swift, {"QUERY_STRING": "do=x"}, "HEAD", OBJECT)
    assert answer.status_int == 200
    assert (swift.seen[-1].source, swift.seen[-1].query) == (names.SWIFT_SOURCE, "")


@pytest.mark.parametrize("is_file", [False, True])
def test_a_body_is_bytes_or_a_file(swift: FakeSwift, is_file: bool) -> None:
    swift.put("c", "other")
    body = io.BytesIO(b"data") if is_file else b"data"
    headers = {"Content-Length": "4"}
    answer = own_requests.exchange(swift, {}, "PUT", OBJECT, headers, body)
    assert answer.status_int == 201
    assert swift.containers["c"].objects["o"].body == b"data"


def test_exchange_closes_the_body(swift: FakeSwift) -> None:
    swift.put("c", "o", b"data")
    own_requests.exchange(swift, {}, "GET", OBJECT)
    assert swift.unclosed() == 0


def test_a_page_of_a_listing(swift: FakeSwift) -> None:
    for name in ("a", "b1", "b2"):
        swift.put("c", name)
    found = own_requests.listing(swift, {}, CONTAINER, {"prefix": "b", "limit": "1"})
    assert [entry["name"] for entry in found or ()] == ["b1"]
    assert own_requests.listing(swift, {}, f"/v1/{ACCOUNT}/none?", {}) is None


@pytest.mark.parametrize(("page", "requests"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_all_pages_of_a_listing(
    swift: FakeSwift, monkeypatch: pytest.MonkeyPatch, page: int, requests: int
) -> None:
    monkeypatch.setattr(own_requests, "PAGE_ENTRIES", page)
    names_ = ["a", "b", "c"]
    for name in names_:
        swift.put("pages", name)
    container = f"/v1/{ACCOUNT}/pages?"
    found = own_requests.all_listed(swift, {}, container, "")
    assert [entry["name"] for entry in found] == names_
    assert len(swift.seen) == requests


def test_a_page_is_not_larger_than_swift_allows(
    swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constraints, "CONTAINER_LISTING_LIMIT", 3)
    assert list(own_requests.all_listed(swift, {}, f"/v1/{ACCOUNT}/none?", "")) == []
    assert "limit=3" in swift.seen[-1].query.split("&")


def test_a_page_that_is_too_long_is_refused(swift: FakeSwift) -> None:
    with pytest.raises(BackendFailed, match="a long listing"):
        own_requests.listing(swift, {}, CONTAINER, {}, most_bytes=10)


def test_a_listing_that_fails_raises(swift: FakeSwift) -> None:
    swift.hooks["GET", f"/v1/{ACCOUNT}/c"] = lambda request: Response(status=500, request=request)
    with pytest.raises(BackendFailed, match="500"):
        own_requests.listing(swift, {}, CONTAINER, {})


@pytest.mark.parametrize("body", [b"", b'[{"name": "a"', b'{"name": "a"}', b"<html>"])
def test_a_listing_that_has_broken_off_is_an_error_and_no_shorter_one(
    swift: FakeSwift, body: bytes
) -> None:
    swift.put("c", "o")
    swift.hooks["GET", CONTAINER.rstrip("?")] = lambda request: Response(
        status=200, request=request, app_iter=[body]
    )
    with pytest.raises(BackendFailed, match="Swift gave a listing"):
        own_requests.listing(swift, {}, CONTAINER, {})
    swift.hooks["GET", CONTAINER.rstrip("?")] = lambda request: Response(
        status=200, request=request, app_iter=[b"[]"], headers={"Content-Length": "200"}
    )
    with pytest.raises(BackendFailed, match="2 of 200 bytes"):
        own_requests.listing(swift, {}, CONTAINER, {})
