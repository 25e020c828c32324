"""Bundles as objects: facts in system metadata, and resolution."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from storlet_middleware.catalog.bundle_store import (
    BundleStore,
    Row,
    Versions,
    facts_headers,
    facts_of,
)
from storlet_middleware.errors import BackendFailed, BundleInvalid, StorletNotFound, Unprocessable
from storlet_middleware.wsgi.swift_paths import ContainerPath
from tests.support.bundles import tool
from tests.unit.middleware.support import ACCOUNT, FakeSwift, Proxy

CONTAINER_PATH = ContainerPath("v1", ACCOUNT, "storlet")
ROW = Row(3, "ab" * 32, 10, "1.0", "2026-01-01T00:00:00+00:00")


def environ() -> dict[str, Any]:
    return {"swift.infocache": {}, "REMOTE_USER": "test:tester"}


@pytest.fixture
def uploaded(swift: FakeSwift, proxy: Proxy) -> FakeSwift:
    for version in ("one", "two"):
        answer = proxy.call("PUT", "storlet/tool.storlet", body=tool("tool", version))
        assert answer.status == 201, answer.data
    return swift


def test_facts_and_versions_are_read_as_they_were_written() -> None:
    facts = {"parameters": {str(number): {"type": "string"} for number in range(400)}}
    headers = facts_headers(facts, ROW)
    assert len(headers) > 1
    assert all(len(value) < 8000 for value in headers.values())
    assert facts_of(headers) == {**facts, "sha256": ROW.sha256}
    versions = Versions(3, 7, (ROW,), (2, 1))
    assert Versions.read(versions.text) == versions


def test_a_rollback_goes_back_in_the_order_in_which_versions_were_current() -> None:
    rows = tuple(replace(ROW, number=number) for number in range(1, 6))

    def previous(*moves: int) -> int | None:
        """The version before, after each of ``moves`` became current."""
        versions = Versions()
        for number in moves:
            versions = versions.moved_to(number, rows)
        assert versions.current == moves[-1]
        assert versions.last == max(moves)
        return versions.previous

    assert previous(1) is None
    assert previous(1, 2, 3) == 2
    assert previous(1, 2, 3, 3) == 2  # the same bytes again
    assert previous(1, 2, 3, 2) == 1  # a second rollback goes further
    assert previous(1, 2, 3, 2, 4) == 2  # version 3 was bad
    assert previous(1, 2, 3, 2, 4, 2) == 1
    assert previous(1, 2, 3, 1) is None
    assert previous(1, 2, 3, 1, 3) == 1  # forward
    kept = rows[:1], (rows[2],)
    assert Versions(1, 1, kept[0]).moved_to(3, kept[1]).previous is None


def test_the_list_of_an_older_release_has_the_order_of_the_numbers() -> None:
    rows = tuple(replace(ROW, number=number) for number in (5, 1, 3))
    written = json.loads(Versions(3, 5, rows).text)
    del written["history"]
    assert Versions.read(json.dumps(written)).history == (1,)


def test_facts_that_do_not_fit_into_headers_are_refused() -> None:
    with pytest.raises(BundleInvalid, match="at most 28000 are allowed"):
        facts_headers({"parameters": "x" * 28000}, ROW)


def test_the_list_of_the_most_versions_fits_into_a_header() -> None:
    rows = tuple(Row(10**8 + number, "ab" * 32, 10**9, "v" * 64, ROW.time) for number in range(50))
    assert len(Versions(1, 1, rows).text) < 16 * 1024


def test_the_current_version_and_its_number_are_the_same_code(uploaded: FakeSwift) -> None:
    store = BundleStore(uploaded, 10)
    current, second, first = (
        store.resolve(environ(), CONTAINER_PATH, name) for name in ("tool", "tool@2", "tool@1")
    )
    assert current.key == second.key != first.key
    assert current.files[0].name == "tool.storlet"
    assert first.files[0].name.startswith("versions/tool/1-")
    assert first.name == "tool"


@pytest.mark.parametrize("name", ["other", "tool@3"])
def test_missing_bundle_or_version_is_not_found(uploaded: FakeSwift, name: str) -> None:
    with pytest.raises(StorletNotFound):
        BundleStore(uploaded, 10).resolve(environ(), CONTAINER_PATH, name)


def test_deleted_version_is_not_found(uploaded: FakeSwift) -> None:
    objects = uploaded.containers["storlet"].objects
    for name in [name for name in objects if name.startswith("versions/tool/1-")]:
        del objects[name]
    with pytest.raises(StorletNotFound, match="was deleted"):
        BundleStore(uploaded, 10).resolve(environ(), CONTAINER_PATH, "tool@1")


def test_bundle_that_no_proxy_has_verified_does_not_run(swift: FakeSwift) -> None:
    swift.put("storlet", "tool.storlet", tool("tool"))
    with pytest.raises(Unprocessable, match="by another way"):
        BundleStore(swift, 10).resolve(environ(), CONTAINER_PATH, "tool")


def test_object_with_facts_of_other_bytes_does_not_run(uploaded: FakeSwift) -> None:
    stored = uploaded.containers["storlet"].objects["tool.storlet"]
    stored.body += b"x"
    with pytest.raises(Unprocessable, match="not what was verified"):
        BundleStore(uploaded, 10).resolve(environ(), CONTAINER_PATH, "tool")


def test_bundle_for_another_engine_does_not_run(uploaded: FakeSwift) -> None:
    headers = uploaded.containers["storlet"].objects["tool.storlet"].headers
    key = next(key for key in headers if key.startswith(names.BUNDLE_SYSMETA))
    headers[key] = headers[key].replace(">=1.0,<2", ">=9.0")
    with pytest.raises(Unprocessable, match="works with engine API"):
        BundleStore(uploaded, 10).resolve(environ(), CONTAINER_PATH, "tool")


def test_failing_swift_is_no_missing_bundle(swift: FakeSwift) -> None:
    path = f"/v1/{ACCOUNT}/storlet/tool.storlet"
    swift.hooks["HEAD", path] = _unavailable
    with pytest.raises(BackendFailed):
        BundleStore(swift, 10).resolve(environ(), CONTAINER_PATH, "tool")


def _unavailable(request: Any) -> Any:
    return Response(status=503, request=request)
