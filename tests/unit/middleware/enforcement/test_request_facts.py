"""Tests of ``request_facts`` and ``caller``: facts for rules.

They cover the caller behind Swift's real auth middlewares, the request, and the stored objects.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

import pytest
from swift.common.middleware import container_sync, formpost, keystoneauth, tempauth, tempurl
from swift.common.swob import Request, Response
from swift.proxy.controllers.obj import BaseObjectController

from rules.conditions import TABLE
from rules.facts import UNKNOWN, Caller, ObjectFacts
from storlet_middleware.enforcement import request_facts
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.caller import caller_of, is_from_swift
from storlet_middleware.wsgi.delegation import is_signed as is_signed_request
from tests.unit.middleware.support import ACCOUNT, FakeSwift

PATH = f"/v1/{ACCOUNT}/c/o"


class RecordingApp:
    """The end of a pipeline: records the environment, and serves the account's keys."""

    def __init__(self) -> None:
        self.environ: dict[str, Any] = {}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        if request.method == "HEAD":
            headers = {"X-Account-Meta-Temp-Url-Key": "key", "X-Container-Sync-Key": "key"}
            return Response(status=204, headers=headers, request=request)(environ, start_response)
        self.environ = environ
        return Response(status=201, request=request)(environ, start_response)

    @property
    def caller(self) -> Caller:
        assert self.environ, "the request did not reach the end of the pipeline"
        return caller_of(self.environ)


def send(
    app: Any,
    seen: RecordingApp,
    headers: Mapping[str, str] | None = None,
    path: str = PATH,
    **more: Any,
) -> Caller:
    environ = {"swift.infocache": {}, **more.pop("environ", {})}
    request = Request.blank(path, environ=environ, headers=headers or {}, **more)
    answer = request.get_response(app)
    assert answer.status_int in (200, 201), answer.body
    return seen.caller


# --- Keystone -------------------------------------------------------------------------------------

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


# --- TempAuth -------------------------------------------------------------------------------------


class Tokens:
    """memcached with the tokens of TempAuth."""

    def __init__(self, **groups: str) -> None:
        self._groups = {f"AUTH_/token/{token}": value for token, value in groups.items()}

    def get(self, key: str, *args: Any, **more: Any) -> Any:
        groups = self._groups.get(key)
        return None if groups is None else (time.time() + 60, groups)

    def set(self, *args: Any, **more: Any) -> None:
        """Do not cache account info."""


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


# --- signatures -----------------------------------------------------------------------------------

SIGNED = {"REMOTE_USER": ".wsgi.tempurl", "swift.authorize_override": True}


def test_signed_url_caller_is_signed_and_its_signature_is_hidden() -> None:
    seen = RecordingApp()
    expires = int(time.time()) + 60
    signature = hmac.new(b"key", f"GET\n{expires}\n{PATH}".encode(), hashlib.sha256).hexdigest()
    path = f"{PATH}?temp_url_sig={signature}&temp_url_expires={expires}"
    app = tempurl.filter_factory({})(tempauth.filter_factory({}, user_test_ada="key")(seen))
    # An additional token does not change the caller.
    assert send(app, seen, {"X-Auth-Token": "AUTH_tk1"}, path) == Caller(is_signed=True)
    facts = request_facts.of_request(seen.environ, "GET", "c", "o")
    assert facts.query == {"temp_url_expires": str(expires)}


def test_signed_form_caller_is_signed() -> None:
    seen = RecordingApp()
    expires, folder = int(time.time()) + 60, f"/v1/{ACCOUNT}/c/"
    signature = hmac.new(
        b"key", f"{folder}\n\n1000\n1\n{expires}".encode(), hashlib.sha256
    ).hexdigest()
    fields = {
        "max_file_size": "1000",
        "max_file_count": "1",
        "expires": str(expires),
        "signature": signature,
    }
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    ]
    disposition = 'form-data; name="f"; filename="o.csv"'
    file = (
        f"--x\r\nContent-Disposition: {disposition}\r\nContent-Type: text/csv\r\n\r\n"
        "data\r\n--x--\r\n"
    )
    body = "".join([*parts, file]).encode()
    app = formpost.filter_factory({})(tempauth.filter_factory({}, user_test_ada="key")(seen))
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert send(app, seen, headers, folder, method="POST", body=body) == Caller(is_signed=True)
    incoming = request_facts.incoming_facts(seen.environ)
    assert (incoming.content_type, incoming.size_bytes) == ("text/csv", None)


def test_container_sync_caller_is_signed_and_its_signature_is_hidden(tmp_path: Any) -> None:
    seen = RecordingApp()
    (tmp_path / "container-sync-realms.conf").write_text("[REALM]\nkey = key\n", "ascii")
    text = f"PUT\n{PATH}\n0\nnonce\nkey"
    signature = hmac.new(b"key", text.encode(), hashlib.sha1).hexdigest()
    right = container_sync.filter_factory({"swift_dir": str(tmp_path)})
    app = right(tempauth.filter_factory({}, user_test_ada="key")(seen))
    headers = {"X-Container-Sync-Auth": f"REALM nonce {signature}", "X-Auth-Token": "AUTH_tk1"}
    assert send(app, seen, headers, method="PUT") == Caller(is_signed=True)
    assert (
        "x-container-sync-auth"
        not in request_facts.of_request(seen.environ, "PUT", "c", "o").headers
    )


@pytest.mark.parametrize(
    ("environ", "is_signed", "is_own"),
    [
        ({}, False, False),
        ({"REMOTE_USER": "test,test:ada"}, False, False),
        # Set by a middleware that authenticated a user.
        ({"REMOTE_USER": "test,test:ada", "swift.authorize_override": True}, False, False),
        (SIGNED, True, False),
        ({"REMOTE_USER": ".wsgi.pre_authed", "swift.authorize_override": True}, False, True),
        ({"REMOTE_USER": ".wsgi.pre_authed", "swift.source": "FP"}, True, False),
        ({"REMOTE_USER": ".wsgi.pre_authed", "swift.source": "TU"}, False, True),
        ({"HTTP_X_CONTAINER_SYNC_AUTH": "a b c", "swift.source": "FP"}, False, False),
    ],
)
def test_signed_requests_and_requests_of_swift_itself_are_recognised(
    environ: dict[str, Any], is_signed: bool, is_own: bool
) -> None:
    assert (is_signed_request(environ), is_from_swift(environ)) == (is_signed, is_own)
    caller = caller_of(environ)
    assert caller.is_signed == is_signed
    if is_own:
        assert caller == Caller()


# --- the request ----------------------------------------------------------------------------------


def facts_of(path: str = PATH, headers: Mapping[str, str] | None = None, **environ: Any) -> Any:
    request = Request.blank(path, headers=headers or {}, environ=environ)
    return request_facts.of_request(request.environ, "GET", "c", "o")


def test_facts_of_a_request_need_no_lookup() -> None:
    facts = facts_of()
    assert (facts.stored, facts.holder) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    "name",
    [
        "X-Auth-Token",
        "X-Storage-Token",
        "X-Service-Token",
        "Authorization",
        "Cookie",
        "X-Amz-Security-Token",
    ],
)
def test_tokens_and_credentials_are_hidden_from_rules(name: str) -> None:
    facts = facts_of(headers={name: "a secret", "X-Wanted": "yes"})
    assert "a secret" not in repr(facts)
    assert facts.headers["x-wanted"] == "yes"


@pytest.mark.parametrize(
    "name", ["temp_url_sig", "X-Amz-Signature", "X-Amz-Credential", "Signature"]
)
def test_signatures_in_the_query_are_hidden_from_rules(name: str) -> None:
    facts = facts_of(f"{PATH}?{name}=a-secret&format=json")
    assert "a-secret" not in repr(facts)
    assert facts.query == {"format": "json"}


def test_header_names_ignore_case_and_values_are_decoded() -> None:
    facts = facts_of(
        headers={
            "X-CoLour": "grün".encode().decode("latin-1"),
            "Content-Type": "Text/CSV",
            "Content-Length": "7",
        }
    )
    read = TABLE["header"].read
    assert read(facts, "x-colour") == "grün"
    assert (read(facts, "content-type"), read(facts, "content-length")) == ("Text/CSV", "7")
    assert read(facts, "x-none") is None


def test_query_keeps_empty_values_and_the_last_of_repeated_ones() -> None:
    facts = facts_of(f"{PATH}?a=1&a=2&empty=&flag&name=gr%C3%BCn+x")
    assert facts.query == {"a": "2", "empty": "", "flag": "", "name": "grün x"}


def test_client_address_is_that_of_the_connection_and_not_of_a_header() -> None:
    headers = {"X-Forwarded-For": "10.0.0.1", "X-Cluster-Client-Ip": "10.0.0.2"}
    assert facts_of(headers=headers, REMOTE_ADDR="192.0.2.7").client_address == "192.0.2.7"
    assert facts_of(headers=headers, REMOTE_ADDR="").client_address is None


def test_times_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    # A Monday, 00:01:59 UTC.
    moment = calendar.timegm((2024, 1, 1, 0, 1, 59))
    real = time.gmtime
    monkeypatch.setattr(
        time, "gmtime", lambda seconds=None: real(moment if seconds is None else seconds)
    )
    assert facts_of().minute_of_week == 1
    moment += 6 * 24 * 3600 + 23 * 3600
    assert facts_of().minute_of_week == 6 * 1440 + 23 * 60 + 1


def test_bytes_that_are_not_utf8_differ_from_all_text() -> None:
    facts = facts_of(headers={"X-Odd": "\xff"})
    assert facts.headers["x-odd"] == "\udcff"


# --- stored objects and containers ----------------------------------------------------------------


def incoming(
    headers: Mapping[str, str], path: str = PATH, body: bytes | None = b"data"
) -> ObjectFacts:
    request = Request.blank(path, method="PUT", headers=headers)
    if body is not None:
        request.body = body
    return request_facts.incoming_facts(request.environ)


@pytest.mark.parametrize(
    ("name", "headers", "expected"),
    [
        ("o.csv", {"Content-Type": "image/png"}, "image/png"),
        ("o.csv", {}, "text/csv"),
        ("o.csv", {"Content-Type": ""}, "text/csv"),
        ("o", {}, "application/octet-stream"),
        ("o.csv", {"Content-Type": "image/png", "X-Detect-Content-Type": "true"}, "text/csv"),
        ("o.csv", {"Content-Type": "image/png", "X-Detect-Content-Type": "no"}, "image/png"),
        (
            "o",
            {"Content-Type": "image/png", "X-Detect-Content-Type": "true"},
            "application/octet-stream",
        ),
        ("gr%C3%BCn.html", {}, "text/html"),
        ("archive.tar.gz", {}, "application/x-tar"),
    ],
)
def test_content_type_of_an_upload_is_the_one_swift_stores(
    name: str, headers: dict[str, str], expected: str
) -> None:
    assert incoming(headers, f"/v1/{ACCOUNT}/c/{name}").content_type == expected
    request = Request.blank(f"/v1/{ACCOUNT}/c/{name}", method="PUT", headers=headers)
    # Compare with the private method of Swift's proxy server.
    BaseObjectController._update_content_type(None, request)
    assert request.headers["Content-Type"] == expected


def test_size_and_metadata_of_an_upload() -> None:
    stored = incoming(
        {
            "X-Object-Meta-Study": "7",
            "X-Object-Meta-Gone": "",
            "X-Object-Meta-Two-Words": "gr\xc3\xbcn",
        }
    )
    assert (stored.exists, stored.size_bytes) == (True, 4)
    # Swift stores an empty value.
    assert stored.metadata == {"study": "7", "gone": "", "two-words": "grün"}


@pytest.mark.parametrize("length", ["", "-1", "4x", "\xb2"])
def test_upload_of_unknown_length_has_no_size(length: str) -> None:
    request = Request.blank(PATH, method="PUT")
    request.environ["CONTENT_LENGTH"] = length
    assert request_facts.incoming_facts(request.environ).size_bytes is None


SOURCE = ObjectFacts(
    exists=True, content_type="text/csv", size_bytes=9, metadata={"study": "7", "kept": "yes"}
)


@pytest.mark.parametrize(
    ("headers", "content_type", "metadata"),
    [
        ({}, "text/csv", {"study": "7", "kept": "yes"}),
        ({"X-Object-Meta-Study": "8"}, "text/csv", {"study": "8", "kept": "yes"}),
        ({"X-Fresh-Metadata": "true"}, "text/csv", {}),
        ({"X-Fresh-Metadata": "true", "X-Object-Meta-Study": "8"}, "text/csv", {"study": "8"}),
        ({"Content-Type": "image/png"}, "image/png", {"study": "7", "kept": "yes"}),
        # Swift then guesses the type from the name of the copy.
        ({"X-Detect-Content-Type": "true"}, "text/html", {"study": "7", "kept": "yes"}),
        (
            {"X-Detect-Content-Type": "true", "Content-Type": "image/png"},
            "text/html",
            {"study": "7", "kept": "yes"},
        ),
        ({"X-Object-Meta-Study": ""}, "text/csv", {"study": "", "kept": "yes"}),
    ],
)
def test_facts_of_a_copy_combine_source_and_request(
    headers: dict[str, str], content_type: str, metadata: dict[str, str]
) -> None:
    request = Request.blank(PATH, method="PUT", headers=headers)
    made = request_facts.copied_facts(request.environ, SOURCE, "o.html")
    assert (made.content_type, made.size_bytes, made.metadata) == (content_type, 9, metadata)


def test_object_lookup_is_pre_authorised() -> None:
    swift = FakeSwift()
    swift.put(
        "c",
        "o",
        b"data",
        Content_Type="Text/CSV; charset=utf-8",
        X_Object_Meta_Study="7",
        X_Object_Sysmeta_A="b",
    )
    request = Request.blank(PATH, environ={"swift.authorize": lambda _: Response(status=403)})
    stored = request_facts.look_up_object(swift, request.environ, PATH + "?")
    assert stored.facts == ObjectFacts(
        exists=True, content_type="Text/CSV; charset=utf-8", size_bytes=4, metadata={"study": "7"}
    )
    assert stored.timestamp == "1640995200.00000"
    assert request_facts.look_up_object(swift, request.environ, PATH + "2?").facts == ObjectFacts()


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_object_lookup_fails_unless_swift_says_whether_the_object_exists(status: int) -> None:
    swift = FakeSwift()
    swift.hooks["HEAD", PATH] = lambda request: Response(status=status, request=request)
    with pytest.raises(BackendFailed):
        request_facts.look_up_object(swift, Request.blank(PATH).environ, PATH + "?")


@pytest.mark.parametrize("status", [403, 500, 503])
def test_container_lookup_fails_unless_swift_says_whether_it_exists(status: int) -> None:
    swift = FakeSwift()
    swift.hooks["HEAD", f"/v1/{ACCOUNT}/c"] = lambda request: Response(
        status=status, request=request
    )
    with pytest.raises(BackendFailed):
        request_facts.container_facts(swift, Request.blank(PATH).environ, "v1", ACCOUNT, "c")
