"""Checked uploads of plain storlets: nothing is stored before the check has passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storlet_middleware import names
from tests.unit.middleware.catalog.test_upload_check import CHECKED, fails_to_load
from tests.unit.middleware.support import (
    RUN,
    STORLET_HEADERS,
    BrokenInput,
    FakeSwift,
    Memcache,
    Node,
    Proxy,
)

PATH = "storlet/up.py"
HEADERS = {**STORLET_HEADERS, **CHECKED}


def held(swift: FakeSwift) -> dict[str, bytes]:
    return {name: each.body for name, each in swift.containers["storlet"].objects.items()}


def test_code_that_loads_is_stored_with_its_metadata(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    answer = proxy.call("PUT", PATH, HEADERS, body=b"class Up: new")
    assert answer.status == 201
    assert held(swift) == {"up.py": b"class Up: new"}
    stored = swift.containers["storlet"].objects["up.py"].headers
    assert stored["X-Object-Meta-Storlet-Main"] == "up.Up"
    assert "X-Delete-After" not in stored
    assert len(node.workers.runs) == 1


def test_checked_code_is_what_the_sandbox_has_loaded(proxy: Proxy, node: Node) -> None:
    proxy.call("PUT", PATH, HEADERS, body=b"class Up: new")
    (code,) = node.code_dir.glob("*/up.py")
    assert code.read_bytes() == b"class Up: new"


def test_code_that_does_not_load_is_not_stored(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    before = held(swift)
    node.workers.script = fails_to_load
    answer = proxy.call("PUT", PATH, HEADERS, body=b"bad")
    assert (answer.status, answer.error) == (422, "registration.check")
    assert b"Traceback" in answer.data
    assert held(swift) == before


@pytest.mark.parametrize(("loads", "status"), [(True, 204), (False, 422)])
def test_post_checks_the_stored_code(
    proxy: Proxy, swift: FakeSwift, node: Node, loads: bool, status: int
) -> None:
    if not loads:
        node.workers.script = fails_to_load
    assert proxy.call("POST", PATH, HEADERS).status == status
    assert len(swift.requests("POST")) == loads


def test_post_of_a_missing_storlet_is_left_to_swift(proxy: Proxy, node: Node) -> None:
    headers = {**HEADERS, "X-Object-Meta-Storlet-Main": "none.Up"}
    assert proxy.call("POST", "storlet/none.py", headers).status == 404
    assert not node.workers.runs


@pytest.mark.parametrize(
    ("path", "more"),
    [(PATH, {"X-Copy-From": "/c/o"}), (PATH + "?multipart-manifest=put", {})],
)
def test_code_of_other_objects_cannot_be_checked(
    proxy: Proxy, swift: FakeSwift, path: str, more: dict[str, str]
) -> None:
    answer = proxy.call("PUT", path, {**HEADERS, **more}, body=b"x")
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert b"cannot be checked" in answer.data
    assert not swift.requests("PUT")


def test_caller_without_access_stages_nothing(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    answer = proxy.call("PUT", PATH, HEADERS, body=b"x", user="other:user")
    assert answer.status == 403
    assert [seen.path for seen in swift.requests("PUT")] == ["/v1/AUTH_test/storlet/up.py"]
    assert not node.workers.runs


def test_body_that_breaks_off_leaves_nothing(proxy: Proxy, swift: FakeSwift) -> None:
    before = held(swift)
    body = BrokenInput(b"class")
    answer = proxy.call("PUT", PATH, {**HEADERS, "Content-Length": "100"}, body=body)
    assert (answer.status, answer.error) == (499, "input.incomplete")
    assert held(swift) == before


def test_code_above_the_limit_is_refused(make_proxy: Callable[..., Proxy]) -> None:
    proxy = make_proxy(limits__code_bytes="65536")
    before = held(proxy.swift)
    answer = proxy.call("PUT", PATH, HEADERS, body=bytes(70000))
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert held(proxy.swift) == before


def test_the_final_write_is_seen_by_the_cache_of_versions(proxy: Proxy) -> None:
    proxy.memcache = Memcache()
    proxy.call("GET", "c/o", RUN)
    key = "storlets-generation/AUTH_test"
    before: Any = proxy.memcache.values[key]
    proxy.call("PUT", PATH, HEADERS, body=b"class Up: new")
    assert proxy.memcache.values[key] not in (before, "writing")


def test_staged_upload_expires_by_itself(proxy: Proxy, swift: FakeSwift) -> None:
    proxy.call("PUT", PATH, HEADERS, body=b"class Up: new")
    staged = swift.requests("PUT")[0]
    assert f"/storlet/{names.BUNDLE_OBJECTS}.upload-" in staged.path
    assert staged.headers["X-Delete-After"] == "86400"
