"""Tests of requests that run no storlet (uploads, grants, start-up), and of the catalog's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.config import ConfigError
from storlet_middleware.errors import BadRequest
from storlet_middleware.filter import filter_factory
from storlet_middleware.wsgi import caller, grants
from storlet_middleware.wsgi.context import AuthorizationChain
from tests.unit.middleware.support import (
    ACCOUNT,
    STORLET_HEADERS,
    FakeSwift,
    Memcache,
    Node,
    Proxy,
    authorize,
)

Make = Callable[..., Proxy]
RUN = {"X-Run-Storlet": "up.py"}

# --- uploads --------------------------------------------------------------------------------------


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


# --- cache of the catalog -------------------------------------------------------------------------


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


# --- grants ---------------------------------------------------------------------------------------


@pytest.fixture
def granted(proxy: Proxy, swift: FakeSwift) -> Proxy:
    """A proxy where test:bob may run storlets and read container c through up.py."""
    swift.containers["storlet"].read = "test:bob"
    answer = proxy.call(
        "POST", "c", {"X-Storlet-Container-Read": "test:bob", "X-Storlet-Name": "up.py"}
    )
    assert answer.status == 204
    return proxy


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


def test_grant_is_listed_for_the_owner_only_and_can_be_revoked(
    granted: Proxy, swift: FakeSwift
) -> None:
    swift.containers["c"].read = "test:bob"
    assert granted.call("HEAD", "c").headers["X-Storlet-Container-Read"] == "test:bob=up.py"
    assert "X-Storlet-Container-Read" not in granted.call("HEAD", "c", user="test:bob").headers
    swift.containers["c"].read = ""
    taken = {"X-Remove-Storlet-Container-Read": "test:bob", "X-Storlet-Name": "up.py"}
    assert granted.call("POST", "c", taken).status == 204
    assert granted.call("GET", "c/o", RUN, user="test:bob").status == 403
    assert swift.containers["c"].sysmeta == {}


def test_refusal_reveals_nothing_of_the_object_to_a_grantee(granted: Proxy) -> None:
    answer = granted.call("GET", "c/o", {**RUN, "If-None-Match": "*"}, user="test:bob")
    assert answer.status == 304
    assert not {"Etag", "Last-Modified"} & set(answer.headers)


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
    from swift.common.swob import Request  # noqa: PLC0415

    used: list[bool] = []
    reader = grants.Reader("test:bob", account, "up.py")
    granted = grants.GrantedReads(reader, Info("/v1/AUTH_test/c"), used)
    authorize_with_grants = AuthorizationChain(authorize).with_grants(granted)
    request = Request.blank(path, environ={"REMOTE_USER": "test:bob"})
    assert (authorize_with_grants(request) is None) == is_allowed
    assert bool(used) == is_allowed
    request.method = "PUT"
    assert authorize_with_grants(request) is not None


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"X-Storlet-Container-Read": "bob"}, "missing a mandatory header"),
        ({"X-Storlet-Name": "x"}, "missing a mandatory header"),
        ({"X-Storlet-Container-Read": "a,b", "X-Storlet-Name": "x"}, "mulformed"),
        ({"X-Storlet-Container-Read": "a b", "X-Storlet-Name": "x"}, "mulformed"),
        (
            {"X-Storlet-Container-Read": "a", "X-Storlet-Name": "x", "X-Storlet-Foo": "1"},
            "X-Storlet-Foo: unknown",
        ),
        (
            {
                "X-Storlet-Container-Read": "a",
                "X-Storlet-Name": "x",
                "X-Remove-Storlet-Container-Read": "b",
            },
            "both gives and takes back",
        ),
    ],
)
def test_malformed_grant_is_refused_with_400(
    proxy: Proxy, headers: dict[str, str], part: str
) -> None:
    answer = proxy.call("POST", "c", headers)
    assert answer.status == 400
    assert part in answer.data.decode()


def test_grants_on_storlet_containers_are_refused(proxy: Proxy) -> None:
    headers = {"X-Storlet-Container-Read": "a", "X-Storlet-Name": "x"}
    assert b"cannot be a storlet container" in proxy.call("POST", "storlet", headers).data


def test_only_owners_can_set_grants_even_if_swift_lets_others_post(
    proxy: Proxy, swift: FakeSwift
) -> None:
    def lets_all(request: Any) -> None:
        """Authorise like a read-write account ACL: POST is allowed, without ownership."""

    headers = {"X-Storlet-Container-Read": "test:eve", "X-Storlet-Name": "up.py"}
    answer = proxy.call(
        "POST", "c", headers, user="test:eve", environ={"swift.authorize": lets_all}
    )
    assert (answer.status, answer.error) == (403, "access.denied")
    assert swift.containers["c"].sysmeta == {}


def test_grant_on_a_missing_container_is_refused_with_a_complete_404(proxy: Proxy) -> None:
    answer = proxy.call("POST", "none", {"X-Storlet-Container-Read": "a", "X-Storlet-Name": "x"})
    assert answer.status == 404
    assert len(answer.data) == int(answer.headers["Content-Length"])


def test_other_settings_of_the_same_post_are_applied(proxy: Proxy, swift: FakeSwift) -> None:
    headers = {
        "X-Storlet-Container-Read": "a",
        "X-Storlet-Name": "x",
        "X-Container-Read": "test:bob",
    }
    assert proxy.call("POST", "c", headers).status == 204
    assert swift.containers["c"].read == "test:bob"


def test_grants_of_a_container_are_limited(proxy: Proxy) -> None:
    for index in range(grants.MAX_GRANTS):
        grant = {"X-Storlet-Container-Read": f"u{index}", "X-Storlet-Name": "s"}
        assert proxy.call("POST", "c", grant).status == 204
    more = {"X-Storlet-Container-Read": "one", "X-Storlet-Name": "more"}
    assert proxy.call("POST", "c", more).status == 400
    assert (
        proxy.call(
            "POST", "c", {"X-Remove-Storlet-Container-Read": "u0", "X-Storlet-Name": "s"}
        ).status
        == 204
    )
    assert proxy.call("POST", "c", more).status == 204


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


@pytest.mark.parametrize(
    ("environ", "user"),
    [
        ({"REMOTE_USER": "test:bob,test,AUTH_test"}, "test:bob"),
        ({"REMOTE_USER": "test,test:bob"}, "test:bob"),
        ({"HTTP_X_USER_NAME": "forged"}, ""),
        ({"keystone.identity": {"x": 1}, "HTTP_X_USER_NAME": "bob"}, "bob"),
        (
            {
                "keystone.identity": {"x": 1},
                "HTTP_X_USER_NAME": "bob",
                "HTTP_X_USER_ID": "9f",
                "HTTP_X_USER_DOMAIN_ID": "other",
            },
            "9f",
        ),
    ],
)
def test_user_comes_from_the_auth_middleware(environ: dict[str, Any], user: str) -> None:
    assert caller.user_of(environ) == user


def test_signed_url_cannot_run_a_storlet(proxy: Proxy, node: Node) -> None:
    answer = proxy.call(
        "GET", "c/o", RUN, user=".wsgi.tempurl", environ={"swift.authorize": lambda _: None}
    )
    assert answer.status == 401
    assert node.workers.runs == []


# --- start ----------------------------------------------------------------------------------------


def test_all_faults_of_paste_section_and_file_are_reported_at_start(tmp_path: Path) -> None:
    path = tmp_path / "storlet.conf"
    path.write_text("[limits]\nmemori_bytes = 1\npids = x\n")
    with pytest.raises(ConfigError) as caught:
        filter_factory({}, role="proxi", rol="x", storlet_conf_path=str(path))
    for part in (
        "unknown option rol; did you mean role?",
        "role = proxi",
        "did you mean memory_bytes?",
        "pids = x",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("role", ["proxy", "object"])
def test_entry_point_creates_a_filter_for_each_role(tmp_path: Path, role: str) -> None:
    path = tmp_path / "storlet.conf"
    path.write_text("")

    def swift(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"x"]

    app = filter_factory({}, role=role, storlet_conf_path=str(path), log_name="x")(swift)
    assert Request.blank("/v1/a/c/o").get_response(app).body == b"x"
