"""PUT with a storlet: Swift stores the result, and only a complete one."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.accounts import unique
from tests.support.http import Client, pieces_of, raw_connection
from tests.support.storlets import INVOCATION_ID, Tool, seen


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_the_result_is_stored(either: Tool, owner: Client, container: str) -> None:
    path = f"{container}/o"
    answer = either.put(
        path, b"some text", "upper", {"Content-Type": "text/x-sent"}, set_Made="yes"
    )
    assert answer.status == 201, answer
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    assert INVOCATION_ID.fullmatch(answer.headers["X-Storlet-Invocation"])
    assert "Server-Timing" in answer.headers
    stored = owner.get(path)
    assert stored.body == b"SOME TEXT"
    assert stored.headers["Etag"].strip('"') == md5(b"SOME TEXT")
    assert stored.meta("Made") == "yes"
    assert stored.headers["Content-Type"] == "text/x-sent"
    assert not [
        name for name in stored.headers if name.lower().startswith(("x-storlet", "x-run-storlet"))
    ]


def test_the_storlet_sets_the_content_type_that_is_stored(
    either: Tool, owner: Client, container: str
) -> None:
    path = f"{container}/o"
    assert (
        either.put(
            path, b"x", headers={"Content-Type": "a/b"}, **{"set_Content-Type": "c/d"}
        ).status
        == 201
    )
    assert owner.head(path).headers["Content-Type"] == "c/d"


def test_the_storlet_sees_the_metadata_of_the_request(
    either: Tool, owner: Client, container: str
) -> None:
    path = f"{container}/o"
    headers = {"X-Object-Meta-Colour": "blue", "X-Object-Meta-Name": "Zoë"}
    assert either.put(path, b"12345", "describe", headers).status == 201
    saw = seen(owner.get(path))
    assert (saw["input.0.meta.colour"], saw["input.0.meta.name"]) == ("blue", "Zoë")
    assert (saw["inputs"], saw["input.0.bytes"], saw["input.0.md5"]) == ("1", "5", md5(b"12345"))


@pytest.mark.parametrize("size", [0, 1, 65536, 5_000_000])
def test_a_body_of_any_size_with_and_without_a_length(
    either: Tool, owner: Client, container: str, size: int
) -> None:
    data = (b"abcdefg " * (size // 8 + 1))[:size]
    for path, body in ((f"{container}/with", data), (f"{container}/without", pieces_of(data))):
        assert either.put(path, body, "upper").status == 201
        assert owner.get(path).md5 == md5(data.upper())


def test_other_headers_of_the_put_keep_their_meaning(
    any_tool: Tool, owner: Client, container: str
) -> None:
    path = f"{container}/o"
    headers = {
        "X-Delete-After": "3600",
        "Content-Disposition": "inline",
        "Content-Encoding": "identity",
    }
    assert any_tool.put(path, b"x", headers=headers).status == 201
    stored = owner.head(path)
    assert "X-Delete-At" in stored.headers
    assert stored.headers["Content-Disposition"] == "inline"


def test_the_clients_etag_is_compared_with_the_bytes_it_sent(
    any_tool: Tool, owner: Client, container: str
) -> None:
    path = f"{container}/o"
    assert any_tool.put(path, b"right", "upper", {"ETag": md5(b"right")}).status == 201
    assert owner.get(path).body == b"RIGHT"
    answer = any_tool.put(path, b"wrong", "upper", {"ETag": md5(b"other")})
    assert answer.status == 422
    assert owner.get(path).body == b"RIGHT"


@pytest.mark.parametrize("after", ["0", "10", "3000000"])
@pytest.mark.parametrize("how", ["raise", "exit"])
def test_a_failed_storlet_stores_nothing(
    either: Tool, owner: Client, container: str, after: str, how: str
) -> None:
    path = f"{container}/o"
    assert owner.put(path, b"the old one").status == 201
    answer = either.put(path, b"new", "fail", after=after, how=how)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert owner.get(path).body == b"the old one"
    assert either.put(f"{container}/new", b"new", "fail", after=after, how=how).status == 422
    assert owner.get(f"{container}/new").status == 404


def test_a_storlet_that_fails_early_does_not_hang_a_long_upload(
    either: Tool, owner: Client, container: str
) -> None:
    answer = either.put(f"{container}/o", pieces_of(b"x" * 8_000_000), "fail")
    assert (answer.status, answer.error) == (422, "storlet.failed")


def test_a_storlet_that_ignores_its_input_may_still_succeed(
    either: Tool, owner: Client, container: str
) -> None:
    assert either.put(f"{container}/o", pieces_of(b"x" * 8_000_000), "version").status == 201
    assert owner.get(f"{container}/o").body == b"1"


def test_extra_resources_join_an_upload(
    either: Tool, owner: Client, plain: str, container: str, content: bytes
) -> None:
    answer = either.put(
        f"{container}/joined", b"first ", headers={"X-Storlet-Extra-Resources": f"/{plain}"}
    )
    assert answer.status == 201
    assert owner.get(f"{container}/joined").body == b"first " + content


def test_a_put_has_no_range_to_read(any_tool: Tool, container: str) -> None:
    assert (
        any_tool.put(f"{container}/o", b"x", headers={"X-Storlet-Range": "bytes=0-1"}).status == 400
    )


def test_a_put_through_a_storlet_needs_write_permission(
    any_tool: Tool, owner: Client, users: dict[str, Client], container: str, shared_storlets: None
) -> None:
    key = unique("write")
    writer = Tool(users["test:tester3"], any_tool.storlet)
    assert writer.put(f"{container}/o", b"x", count=key).status == 403
    assert owner.get(f"{container}/o").status == 404
    assert owner.post(container, {"X-Container-Write": "test:tester3"}).status == 204
    assert writer.put(f"{container}/o", b"x", "upper").status == 201


def test_a_put_to_a_missing_container_is_404(any_tool: Tool) -> None:
    assert any_tool.put("nosuchcontainer/o", b"x").status == 404


def test_the_declaration_of_storlets_is_not_stored_with_results(
    any_tool: Tool, owner: Client, container: str
) -> None:
    headers = {"X-Object-Meta-Storlet-Main": "x.Y", "X-Object-Meta-Kept": "1"}
    assert any_tool.put(f"{container}/o", b"x", "identity", headers).status == 201
    assert owner.head(f"{container}/o").meta("Storlet-Main") is None


def test_a_chunked_body_is_whole_also_with_a_content_length(any_tool: Tool, container: str) -> None:
    """Swift ignores the length of a chunked body."""
    data = b"x" * 300_000
    for run in ({}, {"X-Run-Storlet": any_tool.storlet, "X-Storlet-Parameter-1": "do:upper"}):
        path = f"{container}/chunked"
        headers = {"Content-Length": "5", "Transfer-Encoding": "chunked", "Connection": "close"}
        with raw_connection(any_tool.client) as connection:
            connection.send_head("PUT", path, headers | run)
            connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
            assert connection.read_head()[0] == 201
        assert any_tool.client.get(path).body == (data.upper() if run else data)
