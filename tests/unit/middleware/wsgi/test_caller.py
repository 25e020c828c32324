"""The caller of a request behind Swift's own authentication middlewares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from swift.common.middleware import keystoneauth, tempauth
from swift.common.swob import Request
from swift.common.wsgi import make_env

from rules.facts import Caller
from storlet_middleware.wsgi import caller
from tests.unit.middleware.auth_pipeline import SIGNED, RecordingApp, Tokens, send


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


#: Headers as keystonemiddleware sets them; it removes such headers of the client.
IDENTITY = {
    "X-Identity-Status": "Confirmed",
    "X-User-Id": "u1",
    "X-User-Name": "ada",
    "X-Project-Id": "p1",
    "X-Project-Name": "ward",
    "X-User-Domain-Id": "default",
    "X-User-Domain-Name": "Default",
    "X-Project-Domain-Id": "default",
    "X-Project-Domain-Name": "Default",
    "X-Roles": "Researcher, member",
}


def keystone(headers: Mapping[str, str], **more: Any) -> Caller:
    seen = RecordingApp()
    environ = {"keystone.token_info": {"token": {}}} | more.pop("environ", {})
    return send(keystoneauth.filter_factory({})(seen), seen, headers, environ=environ, **more)


def identity_without(*names: str) -> dict[str, str]:
    return {key: value for key, value in IDENTITY.items() if key not in names}


def test_keystone_caller_has_user_project_domain_and_roles() -> None:
    caller = keystone(IDENTITY)
    assert caller == Caller(
        user="ada", project="ward", domain="Default", roles=frozenset({"Researcher", "member"})
    )


def test_a_request_that_staticweb_makes_has_the_callers_identity() -> None:
    """Swift's ``make_env`` copies neither Keystone's headers nor its identity."""
    own: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        own.append(make_env(environ, "GET", "/v1/AUTH_a/c", swift_source="SW"))
        start_response("200 OK", [])
        return []

    for headers in (IDENTITY, {}):
        request = Request.blank("/v1/AUTH_a/c", headers=headers)
        request.environ["keystone.token_info"] = {"token": {}}
        request.call_application(keystoneauth.filter_factory({})(app))
    ada, anonymous = own
    assert "keystone.identity" not in ada
    assert caller.caller_of(ada) == Caller(
        user="ada", project="ward", domain="Default", roles=frozenset({"Researcher", "member"})
    )
    assert caller.identity_of(ada)[1] == "u1"
    assert caller.caller_of(anonymous) == Caller(is_anonymous=True)


def test_keystone_v2_token_takes_the_domain_from_the_header() -> None:
    caller = keystone(IDENTITY, environ={"keystone.token_info": {"access": {}}})
    assert (caller.user, caller.domain) == ("ada", "Default")


@pytest.mark.parametrize(
    ("missing", "fact", "value"),
    [
        (("X-User-Name",), "user", "u1"),
        (("X-User-Name", "X-User-Id"), "user", None),
        (("X-Project-Name",), "project", "p1"),
        (("X-Project-Name", "X-Project-Id"), "project", None),
        (("X-User-Domain-Name",), "domain", None),
        (("X-Roles",), "roles", frozenset()),
    ],
)
def test_missing_keystone_headers_leave_facts_empty(
    missing: tuple[str, ...], fact: str, value: Any
) -> None:
    caller = keystone(identity_without(*missing))
    assert getattr(caller, fact) == value
    assert not caller.is_anonymous
    assert not caller.is_signed


def test_user_name_is_decoded_as_utf8() -> None:
    name = "Zoë Müller"
    caller = keystone(IDENTITY | {"X-User-Name": name.encode().decode("latin-1")})
    assert caller.user == name


def test_roles_of_a_service_token_are_not_roles_of_the_caller() -> None:
    service = {"X-Service-Identity-Status": "Confirmed", "X-Service-Roles": "service,physician"}
    caller = keystone(IDENTITY | service)
    assert caller.roles == {"Researcher", "member"}


def test_invalid_service_token_makes_the_caller_anonymous() -> None:
    assert keystone(IDENTITY | {"X-Service-Identity-Status": "Invalid"}) == Caller(
        is_anonymous=True
    )


@pytest.mark.parametrize("status", [None, "Invalid", "confirmed"])
def test_unconfirmed_keystone_headers_make_the_caller_anonymous(status: str | None) -> None:
    headers = identity_without("X-Identity-Status") | (
        {"X-Identity-Status": status} if status else {}
    )
    assert keystone(headers) == Caller(is_anonymous=True)


def test_signed_url_behind_keystone() -> None:
    """tempurl is to the left of Keystone's filter, which then skips authentication."""
    assert keystone({}, environ=SIGNED) == Caller(is_signed=True)


def temp_auth(headers: Mapping[str, str], **more: Any) -> Caller:
    seen = RecordingApp()
    cache = Tokens(AUTH_tk1="test,test:ada,researcher,AUTH_test", AUTH_tk2="svc,svc:nova,service")
    environ = {"swift.cache": cache} | more.pop("environ", {})
    app = tempauth.filter_factory({}, user_test_ada="key researcher")(seen)
    return send(app, seen, headers, environ=environ, **more)


def test_tempauth_caller_has_user_account_and_groups() -> None:
    caller = temp_auth({"X-Auth-Token": "AUTH_tk1"})
    assert (caller.user, caller.project, caller.domain) == ("test:ada", "test", None)
    assert "researcher" in caller.roles
    assert not caller.is_anonymous


def test_request_without_a_token_is_anonymous() -> None:
    assert temp_auth({}) == Caller(is_anonymous=True)


@pytest.mark.parametrize(
    "headers", [IDENTITY, {"X-Remote-User": "test:ada"}, {"Remote-User": "test:ada"}]
)
def test_keystone_headers_are_ignored_behind_tempauth(headers: dict[str, str]) -> None:
    assert temp_auth(headers) == Caller(is_anonymous=True)
    caller = temp_auth(headers | {"X-Auth-Token": "AUTH_tk1"})
    assert (caller.user, caller.domain) == ("test:ada", None)


def test_the_identity_of_a_caller_is_keystones_or_the_name() -> None:
    identity = {"user": ("u1", "ada"), "tenant": ("p1", "p")}
    keystone = {"REMOTE_USER": "ada", "keystone.identity": identity, "HTTP_X_USER_NAME": "ada"}
    assert caller.identity_of(keystone) == ("ada", "u1")
    assert caller.identity_of({"REMOTE_USER": "test:tester,test"}) == ("test:tester", "")
    assert (
        caller.identity_of({"REMOTE_USER": ".wsgi.tempurl"}) == caller.identity_of({}) == ("", "")
    )
