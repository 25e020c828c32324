"""The objects of one bundle: numbers of versions, and what is removed."""

from __future__ import annotations

import io

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.catalog.bundle_objects import BundleObjects
from storlet_middleware.catalog.bundle_store import BundleStore, Row, Versions
from storlet_middleware.errors import StorletNotFound
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import ContainerPath
from tests.unit.middleware.support import ACCOUNT, FakeSwift

CONTAINER_PATH = ContainerPath("v1", ACCOUNT, "storlet")


@pytest.fixture
def objects(swift: FakeSwift) -> BundleObjects:
    environ = Request.blank(f"/v1/{ACCOUNT}/storlet/tool.storlet").environ
    return BundleObjects(swift, BundleStore(swift, 3), environ, CONTAINER_PATH, "tool")


def row(number: int) -> Row:
    return Row(number, f"{number:064x}", 1, "1.0", "2026-01-01T00:00:00+00:00")


def stored(swift: FakeSwift) -> set[str]:
    return set(swift.containers["storlet"].objects)


def test_a_bundle_that_is_not_there_has_no_versions(objects: BundleObjects) -> None:
    assert objects.versions() is None
    with pytest.raises(StorletNotFound, match=r"tool\.storlet"):
        objects.existing()


def test_numbers_of_a_cut_deletion_are_not_given_again(
    objects: BundleObjects, swift: FakeSwift
) -> None:
    assert objects.next_number(Versions()) == 1
    swift.put("storlet", row(7).object_of("tool"), b"x")
    assert objects.next_number(Versions()) == 8
    assert objects.next_number(Versions(2, 3, (row(2), row(3)))) == 4


def test_versions_that_are_not_kept_are_removed(objects: BundleObjects, swift: FakeSwift) -> None:
    holders = {number: row(number).object_of("tool") for number in (1, 2, 3, 4)}
    for holder in holders.values():
        swift.put("storlet", holder, b"x")
    before = stored(swift)
    objects.prune(3, (row(2),))
    # The number 4 is of an upload that has begun after the list was read.
    assert before - stored(swift) == {holders[1], holders[3]}


def test_an_object_that_swift_does_not_store_is_refused(
    objects: BundleObjects, swift: FakeSwift
) -> None:
    path = f"/v1/{ACCOUNT}/storlet/tool.storlet"
    swift.hooks["PUT", path] = lambda request: Response(status=413, request=request)
    with pytest.raises(SwiftRefusal) as raised:
        objects.put(objects.pointer, io.BytesIO(b"x"), {})
    assert raised.value.answer.status_int == 413
