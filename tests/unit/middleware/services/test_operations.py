"""The request to the store for each kind of message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from swift.common.header_key_dict import HeaderKeyDict

from storlet_daemon.protocol import messages
from storlet_middleware.errors import BackendFailed, TenantBusy
from storlet_middleware.proxy.buffers import Buffers, BufferShare
from storlet_middleware.services.creations import Creations
from storlet_middleware.services.operations import Operations, Stream
from storlet_middleware.services.requests import StoreAnswer, StoreRefusal
from tests.unit.middleware.services.asking import NoMemory


class Store:
    """Gives one answer, and keeps the last request."""

    def __init__(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        self.answer = StoreAnswer(status, HeaderKeyDict(given), [body], {})
        self.refusal: StoreRefusal | None = None
        self.asked: Any = None

    def send(self, method: str, path: str, headers: Any = None, query: Any = None) -> StoreAnswer:
        self.asked = (method, path, headers or {}, query or {})
        if self.refusal is not None:
            raise self.refusal
        return self.answer

    def body(self, answer: StoreAnswer) -> Any:
        return answer.app_iter


def perform(
    store: Store, request: messages.ServiceRequest, memory: BufferShare | None = None
) -> Any:
    creations = Creations(store, frozenset(), None, 8)  # type: ignore[arg-type]
    operations = Operations(
        store, frozenset({"storlet"}), creations, memory or NoMemory()  # type: ignore[arg-type]
    )  # fmt: skip
    return operations.perform(request)


def test_an_object_is_opened_with_what_the_caller_learns_about_it() -> None:
    store = Store(
        Content_Length="5", Etag='"e"', Content_Type="text/x", X_Object_Meta_Colour="red",
        X_Object_Meta_Storlet_Main="m", Last_Modified="now",
    )  # fmt: skip
    reply = perform(store, messages.OpenObject(1, "/c/o/p"))
    assert store.asked == ("GET", "/c/o/p", {}, {})
    assert reply.facts == messages.Facts({"Colour": "red"}, 5, "e", "text/x", "now")


def test_a_range_of_a_version_is_requested_and_nothing_else_is_taken() -> None:
    store = Store(206, Etag="e")
    request = messages.OpenObject(1, "/c/o", 5, 9, "e")
    assert isinstance(perform(store, request), Stream)
    assert store.asked[2] == {"Range": "bytes=5-9", "If-Match": '"e"'}
    perform(Store(206), messages.OpenObject(1, "/c/o", 5))
    for answer, code in (
        (Store(200, Etag="e"), "range.unsatisfiable"),
        (Store(206, Etag="f"), "services.changed"),
    ):
        with pytest.raises(StoreRefusal) as caught:
            perform(answer, request)
        assert caught.value.code == code


@pytest.mark.parametrize("status", [404, 412])
def test_a_version_that_was_deleted_has_changed(status: int) -> None:
    store = Store()
    store.refusal = StoreRefusal("x", status, "gone")
    with pytest.raises(StoreRefusal) as caught:
        perform(store, messages.OpenObject(1, "/c/o", 0, 1, "e"))
    assert caught.value.code == "services.changed"
    with pytest.raises(StoreRefusal) as caught:
        perform(store, messages.OpenObject(1, "/c/o"))
    assert caught.value.code == "x"


def test_the_result_of_a_rules_storlet_has_no_size() -> None:
    store = Store(Content_Length="5", X_Storlet_Ran_On="proxy")
    assert perform(store, messages.OpenObject(1, "/c/o")).facts.size is None


def test_a_range_without_bytes_is_refused() -> None:
    with pytest.raises(StoreRefusal, match="from 5 to 4"):
        perform(Store(), messages.OpenObject(1, "/c/o", 5, 4))


@pytest.mark.parametrize("path", ["c/o", "/c", "/c/", "//o", "/", "/c/\0", ""])
def test_a_path_is_a_container_and_an_object(path: str) -> None:
    for request in (messages.OpenObject(1, path), messages.StatObject(1, path)):
        with pytest.raises(StoreRefusal, match="want /container/object"):
            perform(Store(), request)


@pytest.mark.parametrize("path", ["/c/" + "o" * 1025, "/" + "c" * 257 + "/o"])
def test_a_name_that_swift_cannot_have_is_refused_with_the_limit(path: str) -> None:
    with pytest.raises(StoreRefusal, match=r"has more than (1024|256) bytes"):
        perform(Store(), messages.StatObject(1, path))


def test_a_page_of_a_listing_says_whether_more_follow() -> None:
    page = json.dumps([{"name": "a"}, {"name": "b"}]).encode()
    store = Store(200, page, Content_Length=str(len(page)))
    request = messages.ListContainer(1, "c", "p", "/", "m", "n", True, 2)
    reply = perform(store, request)
    assert (b"".join(reply.body), reply.has_more) == (page, True)
    assert store.asked == (
        "GET", "/c", {},
        {"format": "json", "limit": "2", "prefix": "p", "delimiter": "/", "marker": "m", "end_marker": "n",
         "reverse": "true"},
    )  # fmt: skip
    assert not perform(store, messages.ListContainer(1, "c", limit=5000)).has_more
    assert store.asked[3] == {"format": "json", "limit": "1000"}
    empty = perform(Store(204), messages.ListContainer(1, "c"))
    assert (b"".join(empty.body), empty.has_more) == (b"[]", False)


def test_entries_are_counted_with_any_names() -> None:
    names = ['"name":', '\\"name":', '{"subdir": "', "\u00e9", "name"]
    page = json.dumps([{"bytes": 1, "name": name} for name in names] + [{"subdir": "subdir"}])
    for text in (page, json.dumps(json.loads(page), separators=(",", ":")) + "\n"):
        store = Store(200, text.encode(), Content_Length=str(len(text)))
        assert perform(store, messages.ListContainer(1, "c", limit=6)).has_more
        assert not perform(store, messages.ListContainer(1, "c", limit=7)).has_more


@pytest.mark.parametrize(("page", "length"), [(b"[]", "5"), (b"[{", "2"), (b"<html>", "6")])
def test_a_listing_that_is_cut_is_a_failure(page: bytes, length: str) -> None:
    with pytest.raises(BackendFailed):
        perform(Store(200, page, Content_Length=length), messages.ListContainer(1, "c"))


def test_pages_that_a_storlet_does_not_read_are_memory_of_its_account() -> None:
    """Sixteen of four megabytes in each of hundreds of runs would end the proxy server."""
    page = json.dumps([{"name": "n" * 1000}] * 200).encode()
    buffers = Buffers(len(page) * 5 // 2, len(page) * 10)
    request = messages.ListContainer(1, "c")

    def listed(account: str = "AUTH_a") -> Any:
        return perform(Store(200, page), request, buffers.share(account)).body

    unread = [listed(), listed()]
    with pytest.raises(TenantBusy):
        listed()
    other = listed("AUTH_b")
    unread.pop().close()
    again = listed()
    assert b"".join(again) == page
    again.close()
    with pytest.raises(BackendFailed):
        perform(Store(200, page[:-1]), request, buffers.share("AUTH_a"))
    for body in (*unread, other, again):
        body.close()
    buffers.share("AUTH_a").add(len(page) * 5 // 2)


@pytest.mark.parametrize("name", ["", "a/b", "a\0"])
def test_a_container_is_one_name(name: str) -> None:
    with pytest.raises(StoreRefusal, match="the name of a container"):
        perform(Store(), messages.ListContainer(1, name))
