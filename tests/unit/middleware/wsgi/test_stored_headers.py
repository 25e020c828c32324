"""Headers of a result, checked before Swift's object servers see them."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.common import constraints
from swift.common.header_key_dict import HeaderKeyDict
from swift.common.swob import Request

from storlet_middleware.engine.output import checked_metadata
from storlet_middleware.errors import BadRequest, StorletError, Unprocessable
from storlet_middleware.wsgi.stored_headers import require_storable, set_metadata
from storlet_middleware.wsgi.strings import wsgi

MANY = {f"k{number}": "v" for number in range(constraints.MAX_META_COUNT + 1)}
LARGE = {f"k{number}": "v" * 250 for number in range(constraints.MAX_META_OVERALL_SIZE // 250 + 1)}


def put(headers: dict[str, str] | None = None, metadata: dict[str, str] | None = None) -> Any:
    request = Request.blank("/v1/AUTH_test/c/o", method="PUT", headers=headers or {})
    set_metadata(request.headers, metadata or {})
    return request


def test_metadata_becomes_headers_and_an_empty_value_removes_one() -> None:
    headers = HeaderKeyDict({"X-Object-Meta-Color": "red", "Content-Type": "text/plain"})
    set_metadata(headers, {"color": " ", "Größe": "\t5 ü ", "content-type": "text/csv"})
    assert (headers["Content-Type"], headers["X-Object-Meta-" + wsgi("Größe")]) == (
        "text/csv",
        wsgi("5 ü"),
    )
    assert len(headers) == 2


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"color": "red", "Content-Type": "text/csv; charset=utf-8"},
        {"color": "grün €"},
        {"a" * constraints.MAX_META_NAME_LENGTH: "b" * constraints.MAX_META_VALUE_LENGTH},
        {key: MANY[key] for key in list(MANY)[1:]},
    ],
)
def test_headers_that_an_object_server_accepts_pass(metadata: dict[str, str]) -> None:
    require_storable(put({"X-Object-Meta-Client": "1"} if not metadata else {}, metadata), metadata)


@pytest.mark.parametrize(
    ("metadata", "code", "part"),
    [
        ({"a" * (constraints.MAX_META_NAME_LENGTH + 1): "x"}, "limit.metadata", "a name of"),
        ({"a": "x" * (constraints.MAX_META_VALUE_LENGTH + 1)}, "limit.metadata", "a value of"),
        (MANY, "limit.metadata", "items of metadata"),
        (LARGE, "limit.metadata", "bytes of metadata"),
        ({"Content-Type": "a/b; swift_bytes=9"}, "failed", "swift_ are reserved"),
        ({"Content-Type": "a\nb/c"}, "failed", "Content-Type"),
        ({"a:b": "5"}, "failed", ""),
        ({"a\rb": "5"}, "failed", "HTTP cannot carry"),
        ({"a": "one\r\nX-Delete-After: 1"}, "failed", ""),
    ],
)
def test_metadata_that_an_object_server_refuses_is_the_storlets_fault(
    metadata: dict[str, str], code: str, part: str
) -> None:
    with pytest.raises(Unprocessable, match=f"metadata cannot be stored: .*{part}") as caught:
        require_storable(put({}, metadata), metadata)
    assert (caught.value.status, caught.value.code) == (422, f"storlet.{code}")


def test_all_limits_are_reported_at_once() -> None:
    metadata = {"a" * 129: "x", "b": "x" * 257}
    with pytest.raises(Unprocessable, match=r"a name of 129 bytes.*; b: a value of 257 bytes"):
        require_storable(put({}, metadata), metadata)


@pytest.mark.parametrize(
    ("headers", "metadata"),
    [
        ({"X-Delete-At": "never"}, {}),
        ({"X-Delete-At": "never"}, {"color": "red"}),
        ({f"X-Object-Meta-{number}": "v" for number in range(91)}, {}),
    ],
)
def test_headers_of_the_client_are_not_the_storlets_fault(
    headers: dict[str, str], metadata: dict[str, str]
) -> None:
    with pytest.raises(BadRequest, match="with the headers of this request"):
        require_storable(put(headers, metadata), metadata)


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3))
def test_headers_of_any_metadata_can_be_sent_or_are_refused(metadata: dict[str, str]) -> None:
    """A header that Swift's HTTP client refuses would count as an error of the node."""
    try:
        # As the engine and the store check a storlet's metadata, one after the other.
        checked = checked_metadata(metadata, 4096)
        request = put({}, checked)
        require_storable(request, checked)
    except StorletError as error:
        assert error.status == 422  # noqa: PT017 - refused, and the storlet is to blame
        return
    connection = HTTPConnection("127.0.0.1")
    connection.putrequest("PUT", "/d/0/a/c/o")
    for name, value in request.headers.items():
        connection.putheader(name.encode("latin-1"), value.encode("latin-1"))
