"""Uploads that are checked before they take effect."""

from __future__ import annotations

import io
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware.catalog import staged_uploads
from storlet_middleware.catalog.staged_uploads import StagedUploads
from storlet_middleware.errors import BackendFailed, BadRequest, BundleInvalid
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import ContainerPath
from tests.unit.middleware.support import ACCOUNT, FakeSwift

CONTAINER_PATH = ContainerPath("v1", ACCOUNT, "code")
PATH = f"/v1/{ACCOUNT}/code/o?"


def environ(body: bytes) -> dict[str, Any]:
    return {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}


def staged(swift: FakeSwift) -> StagedUploads:
    swift.put("code", "other")
    return StagedUploads(swift, 10, 1.0, "bundle", BundleInvalid)


def test_the_body_is_a_file_while_it_is_checked(swift: FakeSwift) -> None:
    uploads = staged(swift)
    with uploads.received(environ(b"data"), CONTAINER_PATH, "v/", "text/x") as (packed, headers):
        packed.seek(0)
        assert (packed.read(), headers["Content-Length"]) == (b"data", "4")
        (name,) = set(swift.containers["code"].objects) - {"other"}
        assert name.startswith("v/upload-")
        stored = swift.containers["code"].objects[name].headers
        assert (stored["X-Delete-After"], stored["Content-Type"]) == ("86400", "text/x")
    assert set(swift.containers["code"].objects) == {"other"}
    assert packed.closed


def test_a_failed_check_leaves_nothing(swift: FakeSwift) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        staged(swift).received(environ(b"x"), CONTAINER_PATH, "v/"),
    ):
        raise ZeroDivisionError
    assert set(swift.containers["code"].objects) == {"other"}


def test_a_body_that_is_too_large_is_refused(swift: FakeSwift) -> None:
    uploads = staged(swift)
    with (
        pytest.raises(BundleInvalid, match="the bundle is larger than the 10 bytes"),
        uploads.received(environ(b"x" * 11), CONTAINER_PATH, "v/"),
    ):
        pytest.fail("it was received")
    assert set(swift.containers["code"].objects) == {"other"}


def test_headers_that_an_object_server_refuses_are_not_sent(swift: FakeSwift) -> None:
    swift.put("code", "other")
    for headers in ({"X-Object-Meta-A": "a\nb"}, {f"X-A-{number}": "x" for number in range(200)}):
        with pytest.raises(BadRequest):
            staged_uploads.write(swift, {}, PATH, io.BytesIO(b"x"), headers)
    assert not swift.requests("PUT", "code/o")
    answer = staged_uploads.write(swift, {}, PATH, io.BytesIO(b"x"), {"X-Object-Meta-A": "a"})
    assert answer.status_int == 201


def test_swifts_refusal_is_the_answer(swift: FakeSwift) -> None:
    uploads = StagedUploads(swift, 10, 1.0, "bundle", BundleInvalid)
    with (
        pytest.raises(SwiftRefusal) as caught,
        uploads.received(environ(b"x"), ContainerPath("v1", "other", "code"), "v/"),
    ):
        pytest.fail("it was received")
    assert caught.value.answer.status_int == 404


def test_an_object_is_read_and_written_whole(swift: FakeSwift) -> None:
    staged(swift)
    packed = io.BytesIO(b"data")
    packed.seek(4)
    answer = staged_uploads.write(swift, {}, PATH, packed, {"Content-Type": "text/x"})
    out = io.BytesIO()
    headers = staged_uploads.read(swift, {}, PATH, out)
    assert (answer.status_int, out.getvalue(), headers["Content-Type"]) == (201, b"data", "text/x")


def test_an_object_that_cannot_be_read_is_named(swift: FakeSwift) -> None:
    path = f"/v1/{ACCOUNT}/code/o"
    swift.hooks["GET", path] = lambda request: Response(status=503, request=request)
    with pytest.raises(BackendFailed, match=f"{path} cannot be read now: Swift answered 503"):
        staged_uploads.read(swift, {}, PATH, io.BytesIO())
