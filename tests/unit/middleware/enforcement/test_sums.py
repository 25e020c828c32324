"""Sums that include covered objects: those of the container, and archived versions of others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from storlet_middleware.enforcement import sums
from storlet_middleware.wsgi.swift_paths import SwiftPath, archived_name, end_of_archived_names
from tests.unit.middleware.ruled_proxy import Ruled, assert_closed, rule
from tests.unit.middleware.rules_pipeline import OnePathRule
from tests.unit.middleware.support import ACCOUNT, FakeSwift

VERSION: Final = "001o/1640995200.00000"
ARCHIVE: Final = f"/v1/{ACCOUNT}/archive"
PLACE: Final = SwiftPath("v1", ACCOUNT, "archive", None)


def rule_of(objects: list[str], *covered: str, place: SwiftPath = PLACE) -> tuple[str | None, int]:
    """The rule, and the number of requests to Swift."""
    swift = FakeSwift()
    for name in objects:
        swift.put("archive", name, b"x")
    environ = {"swift.trans_id": "txtest"}
    rule = sums.covering_rule(swift, environ, OnePathRule(*covered), place)
    return rule, len(swift.seen)


def test_a_sum_of_the_account_includes_each_covered_object() -> None:
    account = PLACE.sibling(None, None)
    assert rule_of([], f"{ACCOUNT}/c/o", place=account) == ("hide", 0)
    assert rule_of([], place=account) == (None, 0)


def test_a_sum_of_a_covered_container_needs_no_listing() -> None:
    assert rule_of([VERSION], f"{ACCOUNT}/archive/*") == ("hide", 0)


def test_a_caller_that_no_rule_covers_costs_no_listing() -> None:
    assert rule_of([VERSION], "AUTH_other/c/o") == (None, 0)


@pytest.mark.parametrize(
    ("objects", "is_covered"),
    [
        ([], False),
        (["a", "o", "2026-01-01.csv"], False),
        (["a", VERSION], True),
        (["001p/1640995200.00000", "002oo/1640995200.00000"], False),
        (["001o/now"], False),
        (["3e8" + "x" * 1000 + "/1640995200.00000", VERSION], True),
    ],
)
def test_an_archive_includes_the_versions_of_covered_objects(
    objects: list[str], is_covered: bool
) -> None:
    assert rule_of(objects, f"{ACCOUNT}/c/o") == ("hide" if is_covered else None, 1)


def test_versions_are_found_on_each_page_and_long_ranges_count_as_covered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storlet_middleware.wsgi.own_requests.PAGE_ENTRIES", 2)
    before = ["0000", "0001", "0002"]
    assert rule_of([*before, VERSION], f"{ACCOUNT}/c/o") == ("hide", 2)
    assert rule_of(before, f"{ACCOUNT}/c/o") == (None, 2)
    many = [f"00{number}" for number in range(10, 20)]
    assert rule_of(many, f"{ACCOUNT}/c/o") == ("hide", 4)


def test_all_archived_names_are_before_the_end() -> None:
    made = [f"{length:03x}" + "x" * length + "/1640995200.00000" for length in (1, 255, 1024)]
    assert all(archived_name(name) for name in made)
    assert all(one < two for one, two in pairwise([*made, end_of_archived_names()]))


# --- requests -------------------------------------------------------------------------------------


@pytest.fixture
def archived(ruled: Ruled) -> Ruled:
    ruled.swift.put("archive", VERSION, b"a secret")
    ruled.rule(rule("hide", "method: GET, container: c", "run: up.py"))
    return ruled


def test_a_quota_of_an_archive_of_covered_objects_is_refused(archived: Ruled) -> None:
    quota = {"X-Container-Meta-Quota-Bytes": "1000"}
    for method in ("PUT", "POST"):
        assert_closed(archived.proxy.call(method, "archive", quota))
        assert not archived.swift.requests(method)


@pytest.mark.parametrize("header", ["Meta-Quota-Bytes", "Quota-Bytes"])
def test_a_quota_of_the_account_is_refused(archived: Ruled, header: str) -> None:
    assert_closed(archived.proxy.call("POST", "", {f"X-Account-{header}": "1000"}))
    assert not archived.swift.requests("POST")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("name", "sum_seen"), [(VERSION, "0"), ("001p/now", "7")])
def test_sums_of_an_archive_are_hidden(
    archived: Ruled, method: str, name: str, sum_seen: str
) -> None:
    del archived.swift.containers["archive"].objects[VERSION]
    archived.swift.put("archive", name, b"a secret")
    archived.swift.hooks[method, ARCHIVE] = summed
    answer = archived.proxy.call(method, "archive", query_string="format=json")
    assert answer.headers["X-Container-Bytes-Used"] == sum_seen


def test_a_failed_listing_fails_the_request(archived: Ruled) -> None:
    def fail(request: Any) -> Any:
        is_own = request.environ.get("swift.source") == names.SWIFT_SOURCE
        return Response(status=503, request=request) if is_own else summed(request)

    archived.swift.hooks["GET", ARCHIVE] = fail
    assert archived.proxy.call("GET", "archive").status == 503
    assert archived.swift.unclosed() == 0


def summed(request: Any) -> Any:
    """An answer with a sum; ``None`` (the usual answer) for requests of the filter itself."""
    if request.environ.get("swift.source") == names.SWIFT_SOURCE:
        return None
    answer = Response(status=200, request=request, body=b"[]", content_type="application/json")
    answer.headers["X-Container-Bytes-Used"] = "7"
    return answer
