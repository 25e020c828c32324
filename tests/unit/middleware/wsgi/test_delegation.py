"""Requests that a signature allows: recognised, and limited to the object that was signed."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from swift.common.middleware import container_sync, formpost, tempauth, tempurl
from swift.common.middleware.s3api.s3api import S3ApiMiddleware
from swift.common.swob import Request, Response

from rules.facts import Caller
from storlet_middleware.enforcement import request_facts
from storlet_middleware.wsgi.caller import caller_of, is_from_swift
from storlet_middleware.wsgi.delegation import covers_storlet
from storlet_middleware.wsgi.delegation import is_signed as is_signed_request
from tests.unit.middleware.auth_pipeline import PATH, SIGNED, RecordingApp, send
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Node, Proxy


def test_signed_url_cannot_run_a_storlet(proxy: Proxy, node: Node) -> None:
    answer = proxy.call(
        "GET", "c/o", RUN, user=".wsgi.tempurl", environ={"swift.authorize": lambda _: None}
    )
    assert answer.status == 401
    assert node.workers.runs == []


@pytest.mark.parametrize(
    ("method", "query"), [("POST", "storlet-version=1"), ("GET", "storlet-versions")]
)
def test_signed_url_has_no_parameter_of_ours(proxy: Proxy, method: str, query: str) -> None:
    """A TempURL signs the method and the path, and no query."""
    path, allowed = f"storlet/tool.storlet?{query}", {"swift.authorize": lambda _: None}
    answer = proxy.call(method, path, user=".wsgi.tempurl", environ=allowed)
    assert (answer.status, answer.error) == (401, "access.denied"), answer.data
    assert query.partition("=")[0].encode() in answer.data
    other = proxy.call("GET", "c/o?filename=x", user=".wsgi.tempurl", environ=allowed)
    assert other.status == 200


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


# --- S3 -------------------------------------------------------------------------------------------


class EndOfPipeline:
    """The rest of a pipeline: records the environment of the request for the object."""

    def __init__(self) -> None:
        self.environ: dict[str, Any] = {}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"].endswith("/bucket/o"):
            self.environ = environ
        return Response(status=200, request=Request(environ))(environ, start_response)


def s3_environ(signed: str, headers: dict[str, str], *, in_query: bool = False) -> dict[str, Any]:
    """The environment of an S3 request (V4) behind Swift's ``s3api``.

    No authentication middleware checks the signature here; :mod:`.delegation` reads its extent.

    :param signed: the further headers that the signature covers.
    """
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{date[:8]}/us-east-1/s3/aws4_request"
    covered = ";".join(sorted(["host", "x-amz-date", *signed.split()]))
    if in_query:
        covered = "host"
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"test:tester/{scope}",
            "X-Amz-Date": date,
            "X-Amz-Expires": "60",
            "X-Amz-SignedHeaders": covered,
            "X-Amz-Signature": "0" * 64,
        }
        path, sent = f"/bucket/o?{urlencode(query)}", headers
    else:
        authorization = (
            f"AWS4-HMAC-SHA256 Credential=test:tester/{scope},"
            f" SignedHeaders={covered}, Signature={'0' * 64}"
        )
        path = "/bucket/o"
        sent = {
            "Authorization": authorization,
            "X-Amz-Date": date,
            "X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD",
            **headers,
        }
    end = EndOfPipeline()
    environ = {"swift.authorize": lambda _: None, "swift.infocache": {}}
    answer = Request.blank(path, environ=environ, headers=sent).get_response(
        S3ApiMiddleware(end, {})
    )
    assert end.environ, (answer.status, answer.body)
    return end.environ


MORE = {**RUN, "X-Storlet-Range": "bytes=0-1"}


@pytest.mark.parametrize(
    ("signed", "headers", "covers"),
    [
        ("", {}, True),
        ("", RUN, False),
        ("x-run-storlet", RUN, True),
        ("x-run-storlet", MORE, False),
        ("x-run-storlet x-storlet-range", MORE, True),
    ],
)
def test_an_s3_signature_must_cover_all_headers_of_storlets(
    signed: str, headers: dict[str, str], covers: bool
) -> None:
    environ = s3_environ(signed, headers)
    assert (is_signed_request(environ), covers_storlet(environ)) == (False, covers)


def test_a_signed_s3_query_cannot_run_a_storlet() -> None:
    environ = s3_environ("", RUN, in_query=True)
    assert (is_signed_request(environ), covers_storlet(environ)) == (True, False)


OF_STORLETS: Final = (
    "X-Run-Storlet", "X-Storlet-Explain", "X-Storlet-Container-Read",
    "X-Remove-Storlet-Container-Read", "X-Storlet-Anything",
)  # fmt: skip


@pytest.mark.parametrize("header", OF_STORLETS)
@pytest.mark.parametrize("user", [".wsgi.tempurl", ".wsgi.formpost"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "c/o"), ("PUT", "c/n"), ("POST", "c"), ("HEAD", ""), ("COPY", "c/o")],
)
def test_no_header_of_storlets_has_an_effect_in_a_signed_request(
    proxy: Proxy, swift: FakeSwift, header: str, user: str, method: str, path: str
) -> None:
    answer = proxy.call(
        method, path, {header: "x"}, user=user, environ={"swift.authorize": lambda _: None}
    )
    assert (answer.status, answer.error) == (401, "access.denied")
    assert method == "HEAD" or header in answer.data.decode()
    assert swift.seen == []


@pytest.mark.parametrize(
    ("environ", "covers"),
    [
        ({}, True),
        ({"REMOTE_USER": "test:ada", "HTTP_X_RUN_STORLET": "up.py"}, True),
        (SIGNED, False),
        ({"swift.authorize_override": True}, False),
        ({"REMOTE_USER": ".wsgi.pre_authed", "swift.source": "FP"}, False),
        # s3api keeps no state of the signature with s3_acl.
        ({"swift.source": "S3", "HTTP_X_RUN_STORLET": "up.py"}, False),
        ({"swift.source": "S3"}, True),
    ],
)
def test_only_requests_with_a_login_or_a_complete_signature_name_storlets(
    environ: dict[str, Any], covers: bool
) -> None:
    assert covers_storlet(environ) is covers
