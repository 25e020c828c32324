"""Only an owner sets, lists and deletes secrets, and no request returns a value."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.middleware.support import ACCOUNT, BrokenInput, FakeSwift, Proxy, authorize

VALUE = b"the value of a secret"


@pytest.fixture
def proxy(make_proxy: Callable[..., Proxy], tmp_path: Path) -> Proxy:
    keys = tmp_path / "keys"
    keys.write_bytes(base64.b64encode(b"k" * 32))
    keys.chmod(0o600)
    return make_proxy(secrets__key_file=str(keys))


def request(
    proxy: Proxy, method: str, query: str = "storlet-secrets=api-token", **more: Any
) -> Any:
    return proxy.call(method, f"/v1/{ACCOUNT}?{query}", more.pop("headers", None), **more)


def test_the_owner_sets_lists_and_deletes(proxy: Proxy) -> None:
    assert request(proxy, "POST", body=VALUE).status == 201
    assert request(proxy, "PUT", body=VALUE).status == 204
    listed = request(proxy, "GET", "storlet-secrets&format=json")
    assert (listed.status, listed.headers["Cache-Control"]) == (200, "no-store")
    assert [row["name"] for row in json.loads(listed.data)] == ["api-token"]
    assert request(proxy, "DELETE").status == 204
    missing = request(proxy, "DELETE")
    assert (missing.status, missing.error) == (404, "secret.not_found")
    assert json.loads(request(proxy, "GET", "storlet-secrets").data) == []


def test_no_answer_and_no_line_of_the_log_has_a_value(proxy: Proxy, swift: FakeSwift) -> None:
    answers = [
        request(proxy, method, query, body=VALUE)
        for method in ("POST", "GET", "HEAD", "PUT")
        for query in ("storlet-secrets=api-token", "storlet-secrets", "storlet-secrets=Wrong")
    ]
    shown = [str([answer.data, answer.headers]) for answer in answers]
    shown += [proxy.logger.text, *map(str, swift.seen)]
    assert not any(VALUE.decode() in each for each in shown)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(("user", "status"), [("test:bob", 403), ("", 401)])
def test_others_get_swifts_refusal(
    proxy: Proxy, swift: FakeSwift, method: str, user: str, status: int
) -> None:
    assert request(proxy, method, user=user, body=VALUE).status == status
    assert "\0storlet-secrets" not in swift.containers


def test_a_caller_with_rights_on_the_account_is_no_owner(proxy: Proxy) -> None:
    def with_rights(asked: Any) -> Any:
        is_account = asked.environ["PATH_INFO"] == f"/v1/{ACCOUNT}"
        return None if is_account else authorize(asked)

    for method in ("GET", "POST", "DELETE"):
        environ = {"swift.authorize": with_rights, "swift_owner": True}
        answer = request(
            proxy, method, "storlet-secrets" + ("" if method == "GET" else "=a"),
            user="test:bob", environ=environ, body=VALUE,
        )  # fmt: skip
        assert (answer.status, answer.error) == (403, "access.denied")


def test_a_signed_request_is_refused(proxy: Proxy) -> None:
    for user in (".wsgi.tempurl", ".wsgi.formpost"):
        answer = request(proxy, "POST", user=user, body=VALUE)
        assert (answer.status, answer.error) == (401, "access.denied")


@pytest.mark.parametrize(
    ("method", "query", "body", "expected"),
    [
        ("POST", "storlet-secrets=Api", VALUE, "'Api': want the name of a secret"),
        ("POST", "storlet-secrets=", VALUE, "want the name of a secret"),
        ("DELETE", "storlet-secrets=a_b", b"", "'a_b': want the name"),
        ("POST", "storlet-secrets=a&other=b", VALUE, "unknown parameter 'other'"),
        ("POST", "storlet-secrets=a", b"1234567", "the value has 7 bytes: want 8 to 4096"),
        ("POST", "storlet-secrets=a", b" 1234567\n", "the value has 7 bytes: want 8 to 4096"),
        ("POST", "storlet-secrets=a", b"", "the value has 0 bytes"),
        ("POST", "storlet-secrets=a", b"x" * 4097, "the value has more than 4096 bytes"),
        ("GET", "storlet-secrets=a", b"", "a value cannot be read"),
    ],
)
def test_bad_requests_are_refused_by_name(
    proxy: Proxy, swift: FakeSwift, method: str, query: str, body: bytes, expected: str
) -> None:
    answer = request(proxy, method, query, body=body)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert expected in answer.data.decode()
    assert "\0storlet-secrets" not in swift.containers


def test_a_value_that_breaks_off_is_not_stored(proxy: Proxy, swift: FakeSwift) -> None:
    body = BrokenInput(VALUE)
    answer = request(proxy, "POST", body=body, headers={"Content-Length": "100"})
    assert (answer.status, answer.error) == (499, "input.incomplete")
    assert "\0storlet-secrets" not in swift.containers


def test_an_account_that_is_not_enabled_has_no_secrets(proxy: Proxy, swift: FakeSwift) -> None:
    swift.is_enabled = False
    answer = request(proxy, "POST", body=VALUE)
    assert (answer.status, "disabled for storlets" in answer.data.decode()) == (400, True)


def test_without_a_key_of_the_cluster_nothing_is_stored(
    make_proxy: Callable[..., Proxy], swift: FakeSwift
) -> None:
    answer = request(make_proxy(), "POST", body=VALUE)
    assert (answer.status, answer.error) == (501, "secrets.off")
    assert "\0storlet-secrets" not in swift.containers
