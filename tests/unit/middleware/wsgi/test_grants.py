"""Grants: their stored form, and reads through the storlet of a grant."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.errors import BadRequest
from storlet_middleware.wsgi import grants
from storlet_middleware.wsgi.context import AuthorizationChain
from tests.unit.middleware.support import RUN, FakeSwift, Proxy, authorize


def test_grant_opens_the_container_through_its_storlet_only(
    granted: Proxy, swift: FakeSwift
) -> None:
    swift.put_storlet("other.py")
    swift.containers["c"].objects["o"].headers["X-Object-Meta-Secret"] = "x"
    assert granted.call("GET", "c/o", user="test:bob").status == 403
    assert granted.call("GET", "c/o", {"X-Run-Storlet": "other.py"}, user="test:bob").status == 403
    assert granted.call("GET", "c/o", RUN, user="test:eve").status == 403
    answer = granted.call("GET", "c/o", RUN, user="test:bob")
    assert (answer.status, answer.data) == (200, b"HELLO")
    assert "X-Object-Meta-Secret" not in answer.headers


@pytest.mark.parametrize("condition", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
def test_a_grantee_cannot_guess_the_hash_of_the_object(granted: Proxy, condition: str) -> None:
    etag = hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    answers = [
        granted.call("GET", "c/o", {**RUN, condition: value}, user="test:bob")
        for value in (f'"{etag}"', '"other"', "*")
    ]
    for answer in answers:
        assert (answer.status, answer.error) == (403, "access.denied")
        assert not {"Etag", "Last-Modified"} & set(answer.headers)
    assert len({answer.data for answer in answers}) == 1


def test_grant_allows_neither_writes_nor_other_containers(granted: Proxy, swift: FakeSwift) -> None:
    swift.put("d", "o", b"secret")
    extra = {**RUN, "X-Storlet-Extra-Resources": "/d/o"}
    assert granted.call("GET", "c/o", extra, user="test:bob").status == 403
    assert granted.call("COPY", "c/o", {**RUN, "Destination": "c/x"}, user="test:bob").status == 403


class Info:
    """An app that serves the grants of one container."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        headers = grants.change_headers(("test:bob", "up.py"), is_given=True)
        is_granted = environ["PATH_INFO"] == self._path
        return Response(status=204, headers=headers if is_granted else {})(environ, start_response)


@pytest.mark.parametrize(
    ("path", "account", "is_allowed"),
    [
        ("/v1/AUTH_test/c/o", "AUTH_test", True),
        ("/v1/AUTH_test/other/o", "AUTH_test", False),
        ("/v1/AUTH_test/c", "AUTH_test", False),
        ("/v1/AUTH_test/c/o", "AUTH_evil", False),
    ],
)
def test_grant_applies_only_to_its_container_and_the_account_of_the_storlet(
    path: str, account: str, is_allowed: bool
) -> None:

    used: list[str] = []
    reader = grants.Reader("test:bob", account, "up.py")
    granted = grants.GrantedReads(reader, Info("/v1/AUTH_test/c"), used)
    authorize_with_grants = AuthorizationChain(authorize).with_grants(granted)
    request = Request.blank(path, environ={"REMOTE_USER": "test:bob"})
    assert (authorize_with_grants(request) is None) == is_allowed
    assert used == (["up.py"] if is_allowed else [])
    request.method = "PUT"
    assert authorize_with_grants(request) is not None


def test_grant_larger_than_a_header_is_refused() -> None:
    with pytest.raises(BadRequest):
        grants.change_headers(("u" * 4000, "s"), is_given=True)


@pytest.mark.parametrize(
    "value", ["", "{", "[1]", '{"a": 1}', "[1,2,3]", "null", '["test:eve", "up.py"]']
)
def test_malformed_or_different_stored_value_grants_nothing(value: str) -> None:
    grant = ("test:bob", "up.py")
    (header,) = grants.change_headers(grant, is_given=True)
    key = header.lower().removeprefix("x-container-sysmeta-")
    assert grants.is_granted({key: '["test:bob", "up.py"]'}, grant)
    assert not grants.is_granted({key: value}, grant)
    assert "bob" not in grants.as_header([(header, value)])


def posted(**headers: str) -> dict[str, Any]:
    """The environment of a POST with headers (``_`` for ``-``)."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    environ: dict[str, Any] = Request.blank("/v1/AUTH_test/c", method="POST", headers=given).environ
    return environ


def test_a_change_names_a_grant_and_its_direction() -> None:
    user = "grün:bob".encode().decode("latin-1")
    added = posted(X_Storlet_Container_Read=f" {user} ", X_Storlet_Name="up.py")
    assert grants.parse_change(added) == (("grün:bob", "up.py"), True)
    revoked = posted(X_Remove_Storlet_Container_Read="bob", X_Storlet_Name="up.py")
    assert grants.parse_change(revoked) == (("bob", "up.py"), False)


@pytest.mark.parametrize("header", ["X_Storlet_Container_Read", "X_Storlet_Name"])
@pytest.mark.parametrize("value", ["\xff", "a/b", "a b", "a\x00", "a,b", "a\x7f"])
def test_names_that_cannot_be_stored_are_refused(header: str, value: str) -> None:
    names = {"X_Storlet_Container_Read": "bob", "X_Storlet_Name": "up.py", header: value}
    with pytest.raises(BadRequest, match=r"not UTF-8|mulformed") as caught:
        grants.parse_change(posted(**names))
    assert str(caught.value).startswith(f"{header.replace('_', '-')}: {value!r}: ")


def test_all_grants_of_a_container_are_counted_and_shown() -> None:
    pairs = [("test:bob", "up.py"), ("test:bob", "b.py"), ("größe=", "c,d.py")]
    headers = [
        item for pair in pairs for item in grants.change_headers(pair, is_given=True).items()
    ]
    revoked = list(grants.change_headers(("test:eve", "up.py"), is_given=False).items())
    other = [("X-Container-Sysmeta-Other", '["a", "b"]'), ("X-Container-Read", "a")]
    assert grants.as_header([*headers, *revoked, *other]) == (
        "gr%C3%B6%C3%9Fe%3D=c%2Cd.py, test:bob=b.py, test:bob=up.py"
    )
    prefix = "x-container-sysmeta-"
    sysmeta = {
        key.lower().removeprefix(prefix): value for key, value in [*headers, *revoked, *other]
    }
    assert grants.count(sysmeta) == 3
    assert [grants.is_granted(sysmeta, pair) for pair in pairs] == [True] * 3
    assert not grants.is_granted(sysmeta, ("test:eve", "up.py"))
    assert not grants.is_granted(sysmeta, ("test:bob", "c,d.py"))


@pytest.mark.parametrize("length", [1000, 1100])
def test_the_value_of_a_grant_is_bounded(length: int) -> None:
    grant = ("u" * length, "s")
    if length > 1024:
        with pytest.raises(BadRequest, match="too long for a grant"):
            grants.change_headers(grant, is_given=True)
    else:
        assert len(grants.change_headers(grant, is_given=True)) == 1
