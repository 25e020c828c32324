"""Writes into the code containers: checked, and reported to the cache of storlet versions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.middleware.support import ACCOUNT, RUN, STORLET_HEADERS, FakeSwift, Memcache, Proxy


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_storlet_with_a_valid_manifest_is_accepted(proxy: Proxy, method: str) -> None:
    assert proxy.call(method, "storlet/up.py", STORLET_HEADERS, body=b"x").status in (201, 204)


def test_all_faults_of_an_upload_are_reported_at_once(proxy: Proxy, swift: FakeSwift) -> None:
    headers = {
        "X-Object-Meta-Storlet-Language": "Python",
        "X-Object-Meta-Storlet-Main": "other.Up",
        "X-Object-Meta-Storlet-Dependency": "../../etc/passwd, a, a",
        "X-Object-Meta-Storlet-Language-Version": "2.7",
    }
    answer = proxy.call("PUT", "storlet/bad.py", headers, body=b"x")
    text = answer.data.decode()
    assert (answer.status, answer.error) == (400, "registration.invalid")
    for part in (
        "Mandatory parameter is missing: Interface-Version",
        "Mandatory parameter is missing: Object-Metadata",
        "Main class should be included in storlet file",
        "Duplicated name in dependencies",
        "'../../etc/passwd' is not a plain file name",
        "Not supported version specified",
    ):
        assert part in text
    assert "bad.py" not in swift.containers["storlet"].objects


@pytest.mark.parametrize(
    "name", ["sub/up.py", "..%2Fup.py", ".up.py", "-up.py", "a%2Cb.py", "a%0Ab.py"]
)
def test_storlet_names_with_path_or_control_characters_are_refused(proxy: Proxy, name: str) -> None:
    assert proxy.call("PUT", f"storlet/{name}", STORLET_HEADERS, body=b"x").status == 400


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({}, "Dependency-Version"),
        (
            {
                "X-Object-Meta-Storlet-Dependency-Version": "1",
                "X-Object-Meta-Storlet-Dependency-Permissions": "9",
            },
            "octal",
        ),
        (
            {
                "X-Object-Meta-Storlet-Dependency-Version": "1",
                "X-Object-Meta-Storlet-Dependency-Permissions": "0077",
            },
            "rw",
        ),
    ],
)
def test_invalid_dependencies_are_refused(proxy: Proxy, headers: dict[str, str], part: str) -> None:
    answer = proxy.call("PUT", "dependency/a.jar", headers, body=b"x")
    assert answer.status == 400
    assert part in answer.data.decode()


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("COPY", "c/plain", {"Destination": "/storlet/up.py"}),
        ("COPY", "c/plain", {"Destination": "%73torlet/up.py"}),
        ("PUT", "storlet/up.py", {"X-Copy-From": "/c/plain", "Content-Length": "0"}),
        ("PUT", "storlet/up.py", {"X-Copy-From": "", "Content-Length": "0"}),
    ],
)
def test_copy_onto_a_storlet_is_checked_like_an_upload(
    proxy: Proxy, swift: FakeSwift, method: str, path: str, headers: dict[str, str]
) -> None:
    swift.put("c", "plain", b"x")
    assert proxy.call(method, path, headers).error == "registration.invalid"


@pytest.mark.parametrize("link", [{"X-Symlink-Target": "c/o"}, {"X-Object-Manifest": "c/o"}])
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_code_cannot_be_uploaded_as_a_link(proxy: Proxy, method: str, link: dict[str, str]) -> None:
    assert (
        proxy.call(method, "storlet/up.py", {**STORLET_HEADERS, **link}).error
        == "registration.invalid"
    )


def test_copy_inherits_the_manifest_of_its_source_unless_fresh_metadata_is_set(
    proxy: Proxy,
) -> None:
    headers = {"Destination": "/storlet/up.py"}
    assert proxy.call("COPY", "storlet/up.py", headers).status == 204
    assert (
        proxy.call("COPY", "storlet/up.py", {**headers, "X-Fresh-Metadata": "true"}).status == 400
    )


@pytest.mark.parametrize("copy_from", ["nocontainer", "c/none", "%ff/x"])
def test_copy_whose_source_cannot_be_read_is_refused(
    proxy: Proxy, swift: FakeSwift, copy_from: str
) -> None:
    answer = proxy.call("PUT", "storlet/up.py", {"X-Copy-From": copy_from, "Content-Length": "0"})
    assert answer.status in (404, 412)
    assert not swift.requests("PUT")
    assert len(answer.data) == int(answer.headers["Content-Length"])


def test_only_an_owner_uploads_a_storlet_that_declares_secrets(
    proxy: Proxy, swift: FakeSwift
) -> None:
    """Its code could send a value to its output."""
    swift.containers["storlet"].write = "test:bob"
    swift.containers["storlet"].read = swift.containers["c"].read = "test:bob"
    secret = STORLET_HEADERS | {"X-Object-Meta-Storlet-Secrets": "api-token"}
    swift.put("c", "plain", b"x").headers |= secret
    before = dict(swift.containers["storlet"].objects)
    for method, path, headers in (
        ("PUT", "storlet/up.py", secret),
        ("POST", "storlet/up.py", secret),
        ("COPY", "c/plain", {"Destination": "storlet/up.py"}),
        ("PUT", "storlet/up.py", {"X-Copy-From": "/c/plain", "Content-Length": "0"}),
    ):
        answer = proxy.call(method, path, headers, user="test:bob", body=b"x")
        assert (answer.status, answer.error) == (403, "access.denied"), (method, answer.data)
        assert b"only an owner of the account" in answer.data
    assert swift.containers["storlet"].objects == before
    assert proxy.call("PUT", "storlet/up.py", secret, body=b"x").status == 201
    # Without a declaration there are no secrets.
    for none in ("", " , "):
        headers = STORLET_HEADERS | {"X-Object-Meta-Storlet-Secrets": none}
        answer = proxy.call("PUT", "storlet/up.py", headers, user="test:bob", body=b"x")
        assert answer.status == 201, answer.data
    assert proxy.call("DELETE", "storlet/up.py", user="test:bob").status == 204


def test_an_upload_that_swift_refuses_invalidates_nothing(proxy: Proxy, swift: FakeSwift) -> None:
    """Otherwise every caller could empty the account's cache."""
    proxy.memcache = Memcache()
    proxy.call("GET", "c/o", RUN)
    before = dict(proxy.memcache.values)
    for user in ("test:bob", ""):
        assert proxy.call("PUT", "storlet/up.py", STORLET_HEADERS, user=user).status in (401, 403)
    assert proxy.memcache.values == before
    assert proxy.call("PUT", "storlet/up.py", STORLET_HEADERS, body=b"x").status == 201
    assert proxy.memcache.values != before


def test_a_write_that_fails_ends_its_mark(proxy: Proxy, swift: FakeSwift) -> None:
    """While the mark of a write stands, no version is cached."""

    def fail(request: Any) -> Any:
        raise RuntimeError("no")

    proxy.memcache = Memcache()
    swift.hooks["PUT", f"/v1/{ACCOUNT}/storlet/up.py"] = fail
    with pytest.raises(RuntimeError):
        proxy.call("PUT", "storlet/up.py", STORLET_HEADERS, body=b"x")
    for _ in range(2):
        assert proxy.call("GET", "c/o", RUN).status == 200
    assert len(swift.requests("HEAD", "storlet/up.py")) == 1


def test_code_can_be_deleted_in_an_account_that_is_not_enabled(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.is_enabled = False
    assert proxy.call("PUT", "storlet/up.py", STORLET_HEADERS, body=b"x").status == 400
    assert proxy.call("DELETE", "storlet/up.py").status == 204
