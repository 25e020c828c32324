"""Changes of bundles: atomic, and nothing is left behind by those that fail."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from storlet_middleware.catalog.bundle_check import BundleChecker
from tests.support.bundles import tool
from tests.unit.client.bundle.hostile import CORPUS
from tests.unit.middleware.support import BrokenInput, FakeSwift, Memcache, Proxy

PATH = "storlet/tool.storlet"
_VERIFIED: dict[Any, dict[str, Any]] = {}


def put(proxy: Proxy, version: str = "one", **more: Any) -> Any:
    return proxy.call("PUT", PATH, body=tool("tool", version), **more)


def held(swift: FakeSwift) -> list[str]:
    """The names of bundles and versions that exist."""
    return sorted(name for name in swift.containers["storlet"].objects if name != "up.py")


@pytest.fixture(autouse=True)
def equal_bundles_are_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is a process, and depends on nothing but the bytes and the bounds."""
    verify = BundleChecker._verify

    def once(checker: BundleChecker, packed: BinaryIO) -> dict[str, Any]:
        packed.seek(0)
        key = (checker._bounds, packed.read())
        if key not in _VERIFIED:
            _VERIFIED[key] = verify(checker, packed)
        return copy.deepcopy(_VERIFIED[key])

    monkeypatch.setattr(BundleChecker, "_verify", once)


def listed(proxy: Proxy) -> list[tuple[int, bool]]:
    answer = proxy.call("GET", PATH + "?storlet-versions")
    assert answer.status == 200, answer.data
    return [(row["number"], row["current"]) for row in json.loads(answer.data)["versions"]]


@pytest.mark.parametrize(
    "fields", [{"secrets": ["api-token"]}, {"parameters": {"key": {"type": "secret"}}}]
)
def test_only_an_owner_uploads_a_bundle_that_declares_secrets(
    proxy: Proxy, swift: FakeSwift, fields: dict[str, Any]
) -> None:
    swift.containers["storlet"].write = swift.containers["storlet"].read = "test:bob"
    packed = tool("tool", "one", **fields)
    refused = proxy.call("PUT", PATH, body=packed, user="test:bob")
    assert (refused.status, refused.error) == (403, "access.denied"), refused.data
    assert held(swift) == []
    assert proxy.call("PUT", PATH, body=packed).status == 201
    assert put(proxy, "two", user="test:bob").status == 201
    back = PATH + "?storlet-version=1"
    refused = proxy.call("POST", back, user="test:bob")
    assert (refused.status, refused.error) == (403, "access.denied"), refused.data
    assert listed(proxy) == [(2, True), (1, False)]
    assert proxy.call("POST", back).status == 202


def test_upload_rollback_and_deletion(proxy: Proxy, swift: FakeSwift) -> None:
    proxy.memcache = Memcache()
    for number in (1, 2, 3):
        answer = put(proxy, f"v{number}")
        assert (answer.status, answer.headers["X-Storlet-Version"]) == (201, str(number))
    assert listed(proxy) == [(3, True), (2, False), (1, False)]
    answer = proxy.call("POST", PATH + "?storlet-version=1")
    assert (answer.status, answer.headers["X-Storlet-Version"]) == (202, "1")
    assert listed(proxy) == [(3, False), (2, False), (1, True)]
    described = json.loads(proxy.call("GET", PATH + "?storlet-versions").data)
    assert (described["name"], described["engine"]) == ("tool", ">=1.0,<2")
    assert swift.containers["storlet"].objects["tool.storlet"].body == tool("tool", "v1")
    assert put(proxy, "v4").headers["X-Storlet-Version"] == "4"
    assert proxy.call("POST", PATH + "?storlet-version=4").status == 202
    assert proxy.call("DELETE", PATH).status == 204
    assert held(swift) == []
    assert proxy.call("GET", PATH + "?storlet-versions").status == 404
    assert not any(key.startswith("storlets-bundle-change") for key in proxy.memcache.values)


def test_the_current_version_again_is_no_new_one(proxy: Proxy, swift: FakeSwift) -> None:
    put(proxy, "v1")
    put(proxy, "v2")
    before = held(swift)
    again = put(proxy, "v2", headers={"X-Object-Meta-Team": "ice"})
    assert (again.status, again.headers["X-Storlet-Version"]) == (201, "2")
    assert (listed(proxy), held(swift)) == ([(2, True), (1, False)], before)
    assert _headers(swift, "tool.storlet")["X-Object-Meta-Team"] == "ice"
    assert proxy.call("POST", PATH + "?storlet-version=1").status == 202
    assert put(proxy, "v1").headers["X-Storlet-Version"] == "1"
    # An earlier version that is not the current one becomes current as a new version.
    assert put(proxy, "v2").headers["X-Storlet-Version"] == "3"
    assert listed(proxy) == [(3, True), (2, False), (1, False)]


def test_the_current_version_again_removes_no_other(make_proxy: Callable[..., Proxy]) -> None:
    proxy = make_proxy(storlet__versions_kept="2")
    for version in ("v1", "v2", "v2", "v2"):
        assert put(proxy, version).status == 201
    assert listed(proxy) == [(2, True), (1, False)]
    assert proxy.call("POST", PATH + "?storlet-version=1").status == 202
    assert put(proxy, "v1").status == 201
    assert put(proxy, "v3").status == 201
    assert listed(proxy) == [(3, True), (1, False)]


def test_the_oldest_versions_are_removed(make_proxy: Callable[..., Proxy]) -> None:
    proxy = make_proxy(storlet__versions_kept="2")
    for number in range(1, 5):
        put(proxy, f"v{number}")
    assert listed(proxy) == [(4, True), (3, False)]
    assert [name[:15] for name in held(proxy.swift)] == [
        "tool.storlet", "versions/tool/3", "versions/tool/4"
    ]  # fmt: skip


def test_the_version_that_a_rollback_returns_to_is_kept(make_proxy: Callable[..., Proxy]) -> None:
    proxy = make_proxy(storlet__versions_kept="2")
    put(proxy, "v1")
    put(proxy, "v2")
    assert proxy.call("POST", PATH + "?storlet-version=1").status == 202
    put(proxy, "v3")
    assert listed(proxy) == [(3, True), (1, False)]
    # The current version again is no reason to remove the one before it.
    put(proxy, "v3")
    assert listed(proxy) == [(3, True), (1, False)]
    assert proxy.call("POST", PATH + "?storlet-version=1").status == 202
    assert listed(proxy) == [(3, False), (1, True)]
    put(proxy, "v4")
    assert listed(proxy) == [(4, True), (1, False)]


def test_other_versions_are_kept_by_the_time_of_their_upload(
    make_proxy: Callable[..., Proxy],
) -> None:
    proxy = make_proxy(storlet__versions_kept="3")
    for number in (1, 2, 3):
        put(proxy, f"v{number}")
    assert proxy.call("POST", PATH + "?storlet-version=1").status == 202
    put(proxy, "v4")
    assert listed(proxy) == [(4, True), (3, False), (1, False)]


def test_one_kept_version_is_the_current_one(make_proxy: Callable[..., Proxy]) -> None:
    proxy = make_proxy(storlet__versions_kept="1")
    put(proxy, "v1")
    put(proxy, "v2")
    assert listed(proxy) == [(2, True)]


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_bundle_leaves_the_current_version(
    proxy: Proxy, swift: FakeSwift, name: str
) -> None:
    put(proxy)
    before = held(swift)
    answer = proxy.call("PUT", PATH, body=CORPUS[name][0]())
    assert (answer.status, answer.error) == (400, "registration.bundle")
    assert held(swift) == before
    assert listed(proxy) == [(1, True)]


def test_bundle_that_is_too_large_is_refused(make_proxy: Callable[..., Proxy]) -> None:
    proxy = make_proxy(limits__code_bytes="65536")
    answer = proxy.call("PUT", PATH, body=bytes(70000))
    assert (answer.status, answer.error) == (400, "registration.bundle")
    assert held(proxy.swift) == []


def test_body_that_breaks_off_leaves_nothing(proxy: Proxy, swift: FakeSwift) -> None:
    put(proxy)
    before = held(swift)
    data = tool("tool", "two")
    body = BrokenInput(data[:100])
    answer = proxy.call("PUT", PATH, {"Content-Length": str(len(data))}, body=body)
    assert (answer.status, answer.error) == (499, "input.incomplete")
    assert held(swift) == before


@pytest.mark.parametrize("failing", range(3))
def test_write_that_fails_leaves_the_current_version(
    proxy: Proxy, swift: FakeSwift, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staging, the version, the pointer; the next upload removes a version without a pointer."""
    put(proxy)
    respond, writes = swift.respond, []

    def fails_once(request: Any) -> Any:
        if request.method == "PUT":
            writes.append(request.path)
            if len(writes) == failing + 1:
                return Response(status=503, request=request)
        return respond(request)

    monkeypatch.setattr(swift, "respond", fails_once)
    assert put(proxy, "two").status == 503
    assert len(writes) == failing + 1
    assert listed(proxy) == [(1, True)]
    assert swift.containers["storlet"].objects["tool.storlet"].body == tool("tool", "one")
    assert put(proxy, "three").status == 201
    assert listed(proxy) == [(2, True), (1, False)]
    assert len(held(swift)) == 3


def test_uploads_are_staged_with_an_expiry(proxy: Proxy, swift: FakeSwift) -> None:
    """A proxy that dies leaves an object that Swift removes, and that no name refers to."""
    put(proxy)
    staged = swift.requests("PUT", "upload-") or [
        seen for seen in swift.seen if "/upload-" in seen.path and seen.method == "PUT"
    ]
    assert int(staged[0].headers["X-Delete-After"]) > 3600


def test_concurrent_change_is_a_conflict(proxy: Proxy, swift: FakeSwift) -> None:
    proxy.memcache = Memcache()
    put(proxy)
    proxy.memcache.values["storlets-bundle-change/AUTH_test/tool"] = 1
    for answer in (put(proxy, "two"), proxy.call("POST", PATH + "?storlet-version=1")):
        assert (answer.status, answer.error) == (409, "registration.conflict")
        proxy.memcache.values["storlets-bundle-change/AUTH_test/tool"] = 1
    assert len(held(swift)) == 2


@pytest.mark.parametrize(
    ("method", "path", "headers", "part"),
    [
        ("PUT", "storlet/Tool.storlet", {}, "want a lower-case letter"),
        ("PUT", "storlet/a/b.storlet", {}, "want a lower-case letter"),
        ("PUT", PATH, {"X-Delete-After": "9"}, "X-Delete-After: a bundle is a plain object"),
        ("PUT", PATH, {"X-Object-Meta-Storlet-Main": "a.B"}, "has this in its manifest"),
        ("PUT", PATH + "?multipart-manifest=put", {}, "multipart-manifest"),
        ("PUT", PATH, {"X-Copy-From": "/c/o"}, "cannot be the target of a copy"),
        ("COPY", "c/o", {"Destination": PATH}, "cannot be the target of a copy"),
        ("PUT", "storlet/versions/tool/1-ab", {}, "are made by uploads"),
        ("POST", "storlet/versions/tool/1-ab", {}, "are made by uploads"),
        ("POST", PATH, {}, "?storlet-version=NUMBER"),
        ("POST", PATH + "?storlet-version=x", {}, "want a version number"),
        ("POST", PATH + "?storlet-version=9", {}, "has no version 9"),
        ("POST", PATH + "?storlet-version=0", {}, "has no version 0"),
    ],
)
def test_other_writes_are_refused(
    proxy: Proxy, swift: FakeSwift, method: str, path: str, headers: dict[str, str], part: str
) -> None:
    put(proxy)
    before = held(swift)
    answer = proxy.call(method, path, headers, body=b"")
    assert answer.status in (400, 404)
    assert part in answer.data.decode()
    assert held(swift) == before


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "GET"])
def test_callers_without_access_are_refused(proxy: Proxy, swift: FakeSwift, method: str) -> None:
    put(proxy)
    query = {"POST": "?storlet-version=1", "GET": "?storlet-versions"}.get(method, "")
    answer = proxy.call(method, PATH + query, user="test2:tester2", body=tool("tool", "two"))
    assert answer.status == 403
    assert len(held(swift)) == 2


def test_a_version_can_be_deleted_and_the_current_one_still_runs(
    proxy: Proxy, swift: FakeSwift
) -> None:
    put(proxy)
    version = next(name for name in held(swift) if name.startswith(names.BUNDLE_OBJECTS))
    assert proxy.call("DELETE", f"storlet/{version}").status == 204
    assert held(swift) == ["tool.storlet"]
    assert proxy.call("POST", PATH + "?storlet-version=1").status == 202


def test_metadata_of_the_client_is_kept_and_a_condition_holds(
    proxy: Proxy, swift: FakeSwift
) -> None:
    headers = {"X-Object-Meta-Mtime": "1", "If-None-Match": "*"}
    assert proxy.call("PUT", PATH, headers, body=tool("tool")).status == 201
    stored = swift.containers["storlet"].objects["tool.storlet"].headers
    assert stored["X-Object-Meta-Mtime"] == "1"
    pointer = [s for s in swift.seen if s.method == "PUT" and s.path.endswith("tool.storlet")]
    assert pointer[-1].headers["If-None-Match"] == "*"


@pytest.mark.parametrize("change", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize("survived", range(12))
def test_proxy_that_dies_at_any_point_leaves_a_whole_bundle(
    proxy: Proxy, swift: FakeSwift, survived: int, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ``survived`` requests to Swift no other arrives, as after ``kill -9`` of the proxy.

    Only objects that expire may be left, and the next upload removes the others.
    """
    for version in ("one", "two"):
        put(proxy, version)
    respond, count = swift.respond, 0

    def dies(request: Any) -> Any:
        nonlocal count
        count += "/storlet/" in request.path or request.path.endswith("/storlet")
        return respond(request) if count <= survived else Response(status=503, request=request)

    with monkeypatch.context() as patched:
        patched.setattr(swift, "respond", dies)
        query = {"POST": "?storlet-version=1"}.get(change, "")
        proxy.call(change, PATH + query, body=tool("tool", "three"))
    before = proxy.call("GET", PATH + "?storlet-versions")
    if before.status == 404:
        assert change == "DELETE"
    else:
        _require_whole(proxy, swift)
    answer = put(proxy, "four")
    assert answer.status == 201
    _require_whole(proxy, swift)
    rows = len(listed(proxy))
    lasting = [name for name in held(swift) if "X-Delete-After" not in _headers(swift, name)]
    assert len(lasting) == rows + 1


def _headers(swift: FakeSwift, name: str) -> Any:
    return swift.containers["storlet"].objects[name].headers


def _require_whole(proxy: Proxy, swift: FakeSwift) -> None:
    """Each version that is listed exists with the bytes of its hash, and so does the current."""
    objects = swift.containers["storlet"].objects
    for row in json.loads(proxy.call("GET", PATH + "?storlet-versions").data)["versions"]:
        name = f"versions/tool/{row['number']}-{row['sha256'][:12]}"
        holders = [name, "tool.storlet"] if row["current"] else [name]
        for holder in holders:
            assert hashlib.sha256(objects[holder].body).hexdigest() == row["sha256"]
