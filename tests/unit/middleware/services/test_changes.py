"""The requests that change an object."""

from __future__ import annotations

from typing import Any

import eventlet
import pytest
from swift.common.header_key_dict import HeaderKeyDict

from storlet_daemon.protocol import messages
from storlet_middleware.services.changes import Changes
from storlet_middleware.services.requests import StoreAnswer, StoreRefusal
from storlet_middleware.wsgi.swift_paths import AccountPath


class Store:
    """An object's headers; keeps the requests."""

    account_path = AccountPath("v1", "AUTH_a")

    def __init__(self, **headers: str) -> None:
        self.headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.pause = 0.0

    def send(self, method: str, path: str, headers: Any = None) -> StoreAnswer:
        self.asked.append((method, path, dict(headers or {})))
        eventlet.sleep(self.pause)
        return StoreAnswer(200, HeaderKeyDict(self.headers), [b""], {})

    def changes(self) -> Changes:
        return Changes(self, frozenset({"storlet", "logs"}))  # type: ignore[arg-type]


def set_on(store: Store, **changes: str) -> dict[str, str]:
    """The headers of the POST."""
    named = {key.replace("_", "-"): value for key, value in changes.items()}
    reply = store.changes().set_metadata(messages.SetMetadata(3, "/c/o", named))
    assert reply == messages.Performed(3)
    assert store.asked[0] == ("HEAD", "/c/o", {"X-Newest": "true"})
    method, path, headers = store.asked[1]
    assert (method, path) == ("POST", "/c/o")
    return headers


def test_other_items_and_what_a_post_removes_are_sent_again() -> None:
    store = Store(
        Content_Length="5", Etag="e", Content_Type="text/x", X_Object_Meta_Colour="red",
        X_Object_Meta_Shape="round", X_Object_Meta_Storlet_Main="m", X_Delete_At="9999999999",
        Content_Encoding="gzip", X_Object_Manifest="c/s", X_Timestamp="1", Last_Modified="now",
    )  # fmt: skip
    assert set_on(store, colour="blue", Size="ü", shape="") == {
        "Content-Encoding": "gzip",
        "X-Delete-At": "9999999999",
        "X-Object-Manifest": "c/s",
        "X-Object-Meta-Colour": "blue",
        "X-Object-Meta-Size": "ü".encode().decode("latin-1"),
        "X-Object-Meta-Storlet-Main": "m",
    }


def test_the_current_version_of_an_object_is_no_link() -> None:
    store = Store(Content_Location="/v1/AUTH_a/c/o?version-id=1.0", X_Object_Meta_A="b")
    assert set_on(store, B="c") == {"X-Object-Meta-A": "b", "X-Object-Meta-B": "c"}


def test_the_content_type_stays_unless_it_is_changed() -> None:
    assert set_on(Store(Content_Type="text/x"), Content_Type="text/y") == {"Content-Type": "text/y"}


@pytest.mark.parametrize(
    ("headers", "changes", "status"),
    [
        ({"X_Storlet_Rule": "hide"}, {"a": "b"}, 403),
        ({"Content_Location": "/v1/a/c/t"}, {"a": "b"}, 400),
        ({"Content_Location": "/v1/a/c/o"}, {"a": "b"}, 400),
        ({"Content_Location": "/v1/AUTH_a/x/c/o?version-id=1.0"}, {"a": "b"}, 400),
        ({"Content_Location": "/v1/AUTH_b/c/o?version-id=1.0"}, {"a": "b"}, 400),
        ({}, {"content-type": " "}, 400),
        ({}, {"a": "b\r\nX-Delete-At: 1"}, 400),
        ({}, {"a: b\r\nX-Delete-At": "1"}, 400),
        ({}, {"n" * 200: "x"}, 400),
        ({}, {"a": "x" * 500}, 400),
        ({}, {f"n{number}": "x" for number in range(100)}, 400),
        ({}, {"Content-Type": "a/b;swift_bytes=1"}, 400),
    ],
)
def test_a_change_that_loses_items_or_cannot_be_stored_is_refused(
    headers: dict[str, str], changes: dict[str, str], status: int
) -> None:
    store = Store(**headers)
    with pytest.raises(StoreRefusal, match=r"^/c/o: ") as caught:
        store.changes().set_metadata(messages.SetMetadata(1, "/c/o", changes))
    assert caught.value.status == status
    assert [method for method, *_ in store.asked] == ["HEAD"]


def test_changes_by_one_run_are_made_one_after_the_other() -> None:
    store = Store()
    store.pause = 0.001
    changes = store.changes()
    tasks = [
        eventlet.spawn(changes.set_metadata, messages.SetMetadata(number, "/c/o", {"a": "b"}))
        for number in range(3)
    ]
    for task in tasks:
        task.wait()
    assert [method for method, *_ in store.asked] == ["HEAD", "POST"] * 3


def test_a_copy_and_a_deletion_are_one_request() -> None:
    store = Store()
    changes = store.changes()
    changes.copy(messages.CopyObject(1, "/c/o", "/d/ö %"))
    changes.delete(messages.DeleteObject(2, "/c/o"))
    assert store.asked == [
        ("COPY", "/c/o", {"Destination": "/d/%C3%B6%20%25"}),
        ("DELETE", "/c/o", {}),
    ]


@pytest.mark.parametrize("path", ["/storlet/a.py", "/logs/.runs/x", "/storlet//", "/c", "c/o"])
def test_reserved_containers_and_other_paths_are_not_changed(path: str) -> None:
    store = Store()
    changes = store.changes()
    for perform in (
        lambda: changes.set_metadata(messages.SetMetadata(1, path, {"a": "b"})),
        lambda: changes.copy(messages.CopyObject(1, "/c/o", path)),
        lambda: changes.delete(messages.DeleteObject(1, path)),
    ):
        with pytest.raises(StoreRefusal):
            perform()
    assert not store.asked
