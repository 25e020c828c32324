"""Requests that change or show the grants of a container."""

from __future__ import annotations

from typing import Any

import pytest

from storlet_middleware.wsgi import grants
from tests.unit.middleware.support import RUN, FakeSwift, Proxy


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


@pytest.mark.parametrize(
    ("user", "storlet", "warnings"),
    [
        ("test:bob", "up.py", []),
        ("bob", "up.py", ["user bob has no account: users are named like test:tester here"]),
        (
            "test:bob",
            "upp.py",
            ["there is no storlet upp.py in container storlet; did you mean up.py?"],
        ),
        ("test:bob", "ü", ["there is no storlet ü in container storlet"]),
        ("bob", "z", ["user bob has no account", "there is no storlet z"]),
    ],
)
def test_a_grant_without_effect_is_stored_with_a_warning(
    proxy: Proxy, swift: FakeSwift, user: str, storlet: str, warnings: list[str]
) -> None:
    headers = {
        "X-Storlet-Container-Read": user,
        "X-Storlet-Name": storlet.encode().decode("latin-1"),
    }
    answer = proxy.call("POST", "c", headers, user="test:tester")
    assert answer.status == 204
    assert len(swift.containers["c"].sysmeta) == 1
    warning = answer.headers.get("X-Storlet-Warning", "").encode("latin-1").decode()
    assert bool(warning) is bool(warnings)
    assert all(part in warning for part in warnings)


def test_a_revoked_grant_has_no_warning(granted: Proxy) -> None:
    headers = {"X-Remove-Storlet-Container-Read": "bob", "X-Storlet-Name": "none.py"}
    answer = granted.call("POST", "c", headers)
    assert (answer.status, "X-Storlet-Warning" in answer.headers) == (204, False)


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


@pytest.mark.parametrize(("user", "status"), [("test:bob", 403), ("", 401)])
def test_a_caller_without_access_gets_swifts_refusal(
    proxy: Proxy, swift: FakeSwift, user: str, status: int
) -> None:
    headers = {"X-Storlet-Container-Read": user or "x", "X-Storlet-Name": "up.py"}
    answer = proxy.call("POST", "c", headers, user=user)
    assert answer.status == status
    assert not swift.requests("POST")
    assert swift.containers["c"].sysmeta == {}


def test_without_an_authentication_middleware_grants_can_be_changed(
    proxy: Proxy, swift: FakeSwift
) -> None:
    headers = {"X-Storlet-Container-Read": "bob", "X-Storlet-Name": "up.py"}
    assert proxy.call("POST", "c", headers, environ={"swift.authorize": None}).status == 204
    assert len(swift.containers["c"].sysmeta) == 1
