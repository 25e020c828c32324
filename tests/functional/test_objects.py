"""Every kind of object: the storlet reads the plain content, at the placement that this
requires."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import other_proxy
from tests.support.storlets import Tool
from tests.support.waiting import wait_for

SEGMENTS = (b"first segment, " * 5000, b"second segment, " * 3000, b"and the last")
WHOLE = b"".join(SEGMENTS)
MIB = 1024 * 1024
LARGE_MIB = 40


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def make_segments(owner: Client, container: str) -> None:
    for number, data in enumerate(SEGMENTS):
        assert owner.put(f"{container}/seg/{number}", data).status == 201


def make_slo(owner: Client, container: str) -> str:
    make_segments(owner, container)
    manifest = [
        {"path": f"/{container}/seg/{n}", "etag": md5(data)} for n, data in enumerate(SEGMENTS)
    ]
    body = json.dumps(manifest).encode()
    answer = owner.put(
        f"{container}/slo", body, {"X-Object-Meta-Kind": "slo"}, query="multipart-manifest=put"
    )
    assert answer.status == 201, answer
    return f"{container}/slo"


def make_dlo(owner: Client, container: str) -> str:
    make_segments(owner, container)
    headers = {"X-Object-Manifest": f"{quote(container)}/seg/", "X-Object-Meta-Kind": "dlo"}
    assert owner.put(f"{container}/dlo", b"", headers).status == 201
    return f"{container}/dlo"


def make_symlink(owner: Client, container: str) -> str:
    assert owner.put(f"{container}/behind", WHOLE, {"X-Object-Meta-Kind": "symlink"}).status == 201
    headers = {
        "X-Symlink-Target": quote(f"{container}/behind"),
        "Content-Type": "application/symlink",
    }
    assert owner.put(f"{container}/symlink", b"", headers).status == 201
    return f"{container}/symlink"


def make_plain(owner: Client, container: str) -> str:
    assert owner.put(f"{container}/plain", WHOLE, {"X-Object-Meta-Kind": "plain"}).status == 201
    return f"{container}/plain"


KINDS = {
    "plain": make_plain,
    "slo": make_slo,
    "dlo": make_dlo,
    "symlink": make_symlink,
    "ec": make_plain,
}


@contextlib.contextmanager
def object_of(owner: Client, kind: str, label: str) -> Iterator[str]:
    """The path of an object of a kind, which reads as ``WHOLE``, in a container of its own."""
    container = unique(f"{label} {kind}")
    policy = {"X-Storage-Policy": "ec21"} if kind == "ec" else {}
    assert owner.put(container, headers=policy).status == 201
    yield KINDS[kind](owner, container)
    delete_large_objects(owner, container)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, owner: Client) -> Iterator[tuple[str, str]]:
    """The kind and the path of an object that reads as ``WHOLE``."""
    with object_of(owner, request.param, "kind") as path:
        yield request.param, path


def expected_placement(tool: Tool, kind: str) -> str:
    """Swift's proxy follows a symlink, so the storlet may run at the target's object node."""
    return tool.placement if kind in ("plain", "symlink") else "proxy"


def check_derived(answer: Answer) -> None:
    for name in (
        "Etag",
        "X-Static-Large-Object",
        "X-Object-Manifest",
        "X-Manifest-Etag",
        "Last-Modified",
        "X-Symlink-Target",
    ):
        assert name not in answer.headers, name


def test_the_storlet_sees_the_content(tool: Tool, kind: tuple[str, str]) -> None:
    name, path = kind
    answer = tool.get(path, "upper")
    assert (answer.status, answer.is_broken, answer.md5) == (200, False, md5(WHOLE.upper())), answer
    assert answer.headers["X-Storlet-Ran-On"] == expected_placement(tool, name)
    check_derived(answer)


def test_a_range_of_the_content_is_read(tool: Tool, kind: tuple[str, str]) -> None:
    cut = len(SEGMENTS[0])
    for asked, wanted in (
        (f"{cut - 7}-{cut + 7}", WHOLE[cut - 7 : cut + 8]),
        ("-12", WHOLE[-12:]),
        (f"{len(WHOLE) - 5}-", WHOLE[-5:]),
    ):
        answer = tool.get(kind[1], headers={"X-Storlet-Range": f"bytes={asked}"})
        assert (answer.status, answer.body) == (200, wanted), answer
        assert answer.headers["Storlet-Input-Range"].endswith(f"/{len(WHOLE)}")
        check_derived(answer)


def test_a_range_outside_the_content_is_416(anywhere: Tool, kind: tuple[str, str]) -> None:
    answer = anywhere.get(kind[1], headers={"X-Storlet-Range": f"bytes={len(WHOLE)}-"})
    assert (answer.status, answer.error) == (416, "range.unsatisfiable")


def test_several_ranges_of_the_content_are_read(anywhere: Tool, kind: tuple[str, str]) -> None:
    saw = anywhere.describe(kind[1], {"X-Storlet-Range": "bytes=0-4,100000-100009"})
    assert saw["inputs"] == "2"
    assert (saw["input.0.md5"], saw["input.1.md5"]) == (md5(WHOLE[:5]), md5(WHOLE[100000:100010]))


def test_the_storlet_sees_the_metadata_of_the_content(
    anywhere: Tool, kind: tuple[str, str]
) -> None:
    name = kind[0] if kind[0] != "ec" else "plain"
    assert anywhere.describe(kind[1])["input.0.meta.kind"] == name


def test_a_copy_of_it_is_a_plain_object(
    anywhere: Tool, owner: Client, container: str, kind: tuple[str, str]
) -> None:
    assert anywhere.copy(kind[1], f"/{container}/copied", "upper").status == 201
    copied = owner.get(f"{container}/copied")
    assert copied.md5 == md5(WHOLE.upper())
    assert "X-Static-Large-Object" not in copied.headers
    assert "X-Object-Manifest" not in copied.headers


def test_the_storlet_sees_the_content_of_an_extra_resource(
    either: Tool, plain: str, kind: tuple[str, str]
) -> None:
    saw = either.describe(plain, {"X-Storlet-Extra-Resources": quote(f"/{kind[1]}")})
    assert saw["input.1.md5"] == md5(WHOLE)


def test_a_failure_does_not_run_again(anywhere: Tool, plain: str, kind: tuple[str, str]) -> None:
    key = unique("fail")
    assert anywhere.get(kind[1], "fail", count=key).status == 422
    assert anywhere.count(plain, key) == 1


def test_an_upload_to_the_erasure_coded_policy_is_transformed(either: Tool, owner: Client) -> None:
    container = unique("ec")
    assert owner.put(container, headers={"X-Storage-Policy": "ec21"}).status == 201
    assert either.put(f"{container}/o", WHOLE, "upper").status == 201
    assert owner.get(f"{container}/o").md5 == md5(WHOLE.upper())
    delete_large_objects(owner, container)


# --- a manifest itself ----------------------------------------------------------------------------


def test_the_manifest_of_an_slo_is_never_mixed_with_content(
    anywhere: Tool, owner: Client, container: str
) -> None:
    """``multipart-manifest=get``: the storlet reads the manifest, or the request is refused, never
    a mixture."""
    path = make_slo(owner, container)
    query = {"multipart-manifest": "get", "do": "identity"}
    answer = owner.get(path, anywhere.headers(), query=query)
    assert answer.status in (200, 400)
    if answer.status == 200:
        assert json.loads(answer.body)[0]["name"] == f"/{container}/seg/0"


# --- sizes and names ------------------------------------------------------------------------------


def test_an_empty_object_is_read(tool: Tool, owner: Client, container: str) -> None:
    path = f"{container}/empty"
    assert owner.put(path, b"", {"X-Object-Meta-Colour": "none"}).status == 201
    answer = tool.get(path)
    assert (answer.status, answer.body, answer.is_broken) == (200, b"", False)
    saw = tool.describe(path)
    assert (saw["input.0.bytes"], saw["input.0.meta.colour"]) == ("0", "none")
    assert tool.get(path, headers={"X-Storlet-Range": "bytes=0-"}).status == 416


NAMES = [
    "with space",
    "100%41%",
    "a/b//c/",
    "?query&x=y#f",
    "+plus",
    "ünïcödé",
    "漢字/かな",
    "quote'\"back\\slash",
    "-dash",
    "~",
    "tab\there",
    "x" * 200,
]


@pytest.mark.parametrize("name", NAMES)
def test_unusual_object_names_work(
    anywhere: Tool, owner: Client, shared_container: str, name: str
) -> None:
    path = f"{shared_container}/{name}"
    assert owner.put(path, name.encode()).status == 201
    answer = anywhere.get(path, "upper")
    assert (answer.status, answer.body) == (
        200,
        name.encode().upper() if name.isascii() else answer.body,
    )
    assert answer.headers["X-Storlet-Ran-On"] == anywhere.placement
    assert anywhere.describe(path)["input.0.md5"] == md5(name.encode())


@pytest.mark.parametrize("stem", ["c %41+", "Behälter", "漢 字", "q?&#"])
def test_unusual_container_names_work(tool: Tool, owner: Client, stem: str) -> None:
    container = unique(stem)
    assert owner.put(container).status == 201
    path = f"{container}/ö b"
    assert tool.put(path, b"text", "upper").status == 201
    assert tool.get(path).body == b"TEXT"
    assert tool.copy(path, quote(f"/{container}/copied ü"), "identity").status == 201
    assert owner.get(f"{container}/copied ü").body == b"TEXT"
    delete_large_objects(owner, container)


@pytest.fixture(scope="module")
def large(owner: Client) -> Iterator[tuple[str, str]]:
    """An object that is larger than all buffers together, and its MD5."""
    container = unique("large")
    assert owner.put(container).status == 201
    block = bytes(range(256)) * 4096
    digest = hashlib.md5(usedforsecurity=False)

    def blocks() -> Iterator[bytes]:
        for number in range(LARGE_MIB):
            data = number.to_bytes(4, "big") + block[4:]
            digest.update(data)
            yield data

    assert owner.put(f"{container}/large", blocks()).status == 201
    yield f"{container}/large", digest.hexdigest()
    delete_large_objects(owner, container)


def test_a_large_object_is_streamed(tool: Tool, large: tuple[str, str]) -> None:
    path, digest = large
    answer = tool.client.get(path, tool.headers(), keep=False, query="do=identity")
    assert (answer.status, answer.is_broken, answer.size, answer.md5) == (
        200,
        False,
        LARGE_MIB * MIB,
        digest,
    )
    assert answer.headers["X-Storlet-Ran-On"] == tool.placement


def test_a_large_object_is_copied_through_a_storlet(
    either: Tool, owner: Client, large: tuple[str, str], container: str
) -> None:
    path, digest = large
    assert either.copy(path, f"/{container}/copied").status == 201
    assert owner.head(f"{container}/copied").headers["Etag"].strip('"') == digest


def test_more_bytes_than_32_bits_can_count_are_streamed(
    owner: Client, container: str, storlet_names: dict[str, str], any_tool: Tool
) -> None:
    """A large object of many times the same segments: all of it must go through the storlet."""
    segment = bytes(range(256)) * (32 * 4096)
    names = ["one", "two"]
    for name in names:
        assert owner.put(f"{container}/{name}", b"0" + segment).status == 201
    # Of a part of an object Swift compares no MD5, which would take a fifth of all time.  Parts
    # of the same object in succession are one request, whose multipart answer takes a third.
    parts = [{"path": f"/{container}/{name}", "range": f"1-{len(segment)}"} for name in names]
    manifest: list[dict[str, Any]] = parts * 65
    answer = owner.put(
        f"{container}/large", json.dumps(manifest).encode(), query="multipart-manifest=put"
    )
    assert answer.status == 201, answer
    connection, response = any_tool.client.open(
        "GET", f"{container}/large", any_tool.headers(), query="do=identity", timeout=300
    )
    # A hash of all bytes would take as long as the request.
    size, buffer = 0, bytearray(MIB)
    with contextlib.closing(connection):
        while count := response.readinto(buffer):
            size += count
    assert (response.status, size) == (200, 65 * 64 * MIB)


@pytest.fixture(scope="module")
def paged(cluster: Cluster, owner: Client) -> Iterator[Client]:
    """The owner at a proxy to which three segments are a full page: a dynamic large object of as
    many has no Content-Length there, and Swift ends it at a missing segment without an error."""
    with other_proxy(cluster, constraints={"container_listing_limit": "3"}) as proxy:
        yield proxy.client(owner)


def test_a_dynamic_object_without_a_length_is_read_whole(
    owner: Client, paged: Client, anywhere: Tool, container: str
) -> None:
    path = make_dlo(owner, container)
    assert "Content-Length" not in paged.get(path).headers
    answer = Tool(paged, anywhere.storlet, anywhere.placement).get(path, "upper")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, WHOLE.upper())


def test_a_dynamic_object_without_a_length_and_a_segment_gives_no_result(
    owner: Client, paged: Client, anywhere: Tool, container: str
) -> None:
    tool = Tool(paged, anywhere.storlet, anywhere.placement)
    path, lost = make_dlo(owner, container), f"{container}/seg/1"
    assert owner.put(lost, SEGMENTS[1], {"X-Delete-After": "1"}).status == 201
    wait_for(lambda: owner.get(lost).status == 404, 10, "the expiry of a segment")
    short = paged.get(path)
    assert (short.status, short.is_broken, short.body) == (200, False, SEGMENTS[0])
    for answer in (
        tool.get(path, "upper"),
        tool.get(path, "describe"),
        tool.get(f"{container}/seg/0", headers={"X-Storlet-Extra-Resources": f"/{path}"}),
    ):
        assert answer.is_broken or answer.status == 503, answer
    assert tool.copy(path, f"{container}/target").status == 503
    assert owner.get(f"{container}/target").status == 404
