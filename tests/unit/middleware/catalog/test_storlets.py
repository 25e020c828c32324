"""Resolution of storlets to versions, and its cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from swift.common.swob import Response
from swift.proxy.controllers.base import get_cache_key

from tests.unit.middleware.support import (
    ACCOUNT,
    RUN,
    STORLET_HEADERS,
    FakeSwift,
    Memcache,
    Node,
    Proxy,
)


@pytest.mark.parametrize(
    "link",
    [{"Content_Location": "/v1/AUTH_other/storlet/up.py"}, {"X_Object_Manifest": "secret/part"}],
)
@pytest.mark.parametrize("is_dependency", [False, True])
def test_code_is_not_read_through_a_link_beyond_the_rights_of_the_tenant(
    proxy: Proxy, swift: FakeSwift, node: Node, link: dict[str, str], *, is_dependency: bool
) -> None:
    swift.put("c", "o", b"hello")
    swift.put(
        "dependency",
        "d.bin",
        b"d",
        X_Object_Meta_Storlet_Dependency_Version="1",
        **(link if is_dependency else {}),
    )
    swift.put_storlet(X_Object_Meta_Storlet_Dependency="d.bin", **({} if is_dependency else link))
    answer = proxy.call("GET", "c/o", {"X-Run-Storlet": "up.py"})
    assert (answer.status, answer.error) == (422, "storlet.load")
    assert not [
        seen
        for seen in swift.requests("GET")
        if "/storlet/" in seen.path or "/dependency/" in seen.path
    ]


def test_code_in_a_versioned_container_is_not_taken_for_a_link(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put("c", "o", b"hello")
    swift.put_storlet(Content_Location="/v1/AUTH_test/storlet/up.py?version-id=1.2")
    assert proxy.call("GET", "c/o", {"X-Run-Storlet": "up.py"}).status == 200
    assert not swift.requests("PUT")


@pytest.fixture
def caching_proxy(proxy: Proxy) -> Proxy:
    proxy.memcache = Memcache()
    return proxy


def heads(swift: FakeSwift) -> int:
    return len(swift.requests("HEAD", "storlet/up.py"))


def test_each_request_looks_the_storlet_up_without_memcached(
    proxy: Proxy, swift: FakeSwift
) -> None:
    for _ in range(3):
        assert proxy.call("GET", "c/o", RUN).status == 200
    assert heads(swift) == 3


def test_storlet_is_looked_up_once_with_memcached(caching_proxy: Proxy, swift: FakeSwift) -> None:
    for _ in range(3):
        assert caching_proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert heads(swift) == 1


def test_one_round_trip_reads_the_cached_storlet_and_container(
    caching_proxy: Proxy, swift: FakeSwift
) -> None:
    trips: list[int] = []
    caching_proxy.call("GET", "c/o", RUN)
    caching_proxy.memcache.on_get.append(lambda: trips.append(1))
    # Swift's cached container info gives read permission to one other user.
    key = f"container/{ACCOUNT}/storlet"
    assert key == get_cache_key(ACCOUNT, "storlet")
    caching_proxy.memcache.values[key] = {
        "status": 200,
        "read_acl": "friend",
        "meta": {},
        "sysmeta": {},
    }
    swift.containers["c"].read = "friend"
    assert caching_proxy.call("GET", "c/o", RUN, user="friend").status == 200
    assert caching_proxy.call("GET", "c/o", RUN, user="stranger").error == "access.denied"
    assert len(trips) == 2


@pytest.mark.parametrize("servers", [["one"], ["one", "another"]])
def test_container_of_the_object_is_read_with_the_storlet_from_a_single_server(
    caching_proxy: Proxy, swift: FakeSwift, servers: list[str]
) -> None:
    """Of several servers, one may hold stale values from a time when another was down."""
    caching_proxy.memcache.memcache_servers = servers
    caching_proxy.call("GET", "c/o", RUN)
    key, known = (
        f"container/{ACCOUNT}/c",
        {"status": 200, "read_acl": "", "meta": {}, "sysmeta": {}},
    )
    caching_proxy.memcache.values[key] = known
    seen: dict[str, Any] = {}
    caching_proxy.call("GET", "c/o", RUN, environ={"swift.infocache": seen})
    assert seen.get(key) == (known if len(servers) == 1 else None)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_write_invalidates_the_cached_storlet(
    caching_proxy: Proxy, swift: FakeSwift, method: str
) -> None:
    caching_proxy.call("GET", "c/o", RUN)
    caching_proxy.call(method, "storlet/up.py", STORLET_HEADERS)
    caching_proxy.call("GET", "c/o", RUN)
    assert heads(swift) == 2


def test_copy_onto_a_storlet_invalidates_the_cached_storlet(
    caching_proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put("c", "next.py", b"x").headers |= STORLET_HEADERS
    caching_proxy.call("GET", "c/o", RUN)
    assert caching_proxy.call("COPY", "c/next.py", {"Destination": "/storlet/up.py"}).status == 204
    caching_proxy.call("GET", "c/o", RUN)
    assert heads(swift) == 2


def test_destination_account_header_of_a_put_does_not_prevent_invalidation(
    caching_proxy: Proxy, swift: FakeSwift
) -> None:
    caching_proxy.call("GET", "c/o", RUN)
    caching_proxy.call(
        "PUT", "storlet/up.py", {**STORLET_HEADERS, "Destination-Account": "AUTH_other"}, body=b"x"
    )
    caching_proxy.call("GET", "c/o", RUN)
    assert heads(swift) == 2


def test_lookup_that_races_with_a_write_is_not_cached(
    caching_proxy: Proxy, swift: FakeSwift
) -> None:
    path = f"/v1/{ACCOUNT}/storlet/up.py"

    def write_meanwhile(request: Any) -> None:
        if request.method == "HEAD":
            del swift.hooks["HEAD", path]
            caching_proxy.call("POST", "storlet/up.py", STORLET_HEADERS)

    swift.hooks["HEAD", path] = write_meanwhile
    caching_proxy.call("GET", "c/o", RUN)
    before = heads(swift)
    caching_proxy.call("GET", "c/o", RUN)
    assert heads(swift) == before + 1


def test_nothing_is_cached_during_a_write(caching_proxy: Proxy, swift: FakeSwift) -> None:
    path = f"/v1/{ACCOUNT}/storlet/up.py"
    seen: list[int] = []

    def read_twice(request: Any) -> None:
        for _ in range(2):
            caching_proxy.call("GET", "c/o", RUN)
            seen.append(heads(swift))

    caching_proxy.call("GET", "c/o", RUN)
    swift.hooks["POST", path] = read_twice
    caching_proxy.call("POST", "storlet/up.py", STORLET_HEADERS)
    assert seen == [2, 3]


def test_write_lasts_until_its_answer_is_read(caching_proxy: Proxy, swift: FakeSwift) -> None:
    def slowly(request: Any) -> Any:
        def chunks() -> Iterator[bytes]:
            yield b" "
            caching_proxy.call("GET", "c/o", RUN)
            yield b"done"

        return Response(status=202, request=request, app_iter=chunks())

    swift.hooks["PUT", f"/v1/{ACCOUNT}/storlet/up.py"] = slowly
    caching_proxy.call("PUT", "storlet/up.py", STORLET_HEADERS, body=b"x")
    caching_proxy.call("GET", "c/o", RUN)
    assert heads(swift) == 2


def test_changed_dependency_is_prepared_in_a_new_directory(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Dependency="a.txt")
    dependency = swift.put("dependency", "a.txt", b"one")
    dependency.headers["X-Object-Meta-Storlet-Dependency-Version"] = "1"
    proxy.call("GET", "c/o", RUN)
    dependency.body = b"two"
    proxy.call("GET", "c/o", RUN)
    directories = [entry for entry in node.code_dir.iterdir() if not entry.name.startswith(".")]
    assert sorted((entry / "a.txt").read_bytes() for entry in directories) == [b"one", b"two"]


@pytest.mark.parametrize("fault", ["missing", "invalid"])
def test_unusable_dependency_is_an_error_of_the_tenant(
    proxy: Proxy, swift: FakeSwift, fault: str
) -> None:
    swift.put_storlet(X_Object_Meta_Storlet_Dependency="a.txt,b.txt")
    if fault == "invalid":
        swift.put("dependency", "a.txt", b"one")
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (422, "storlet.load")
    assert "a.txt" in answer.data.decode()
    assert "b.txt" in answer.data.decode()
