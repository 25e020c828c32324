"""The account's setting for the callers of the system library."""

from __future__ import annotations

import pytest
from swift.common.swob import Request

from storlet_middleware.catalog.library_callers import require_valid
from storlet_middleware.errors import BadRequest
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.support import ACCOUNT, OWNER, FakeSwift, Node, Proxy

NAME = "X-Account-Meta-Storlet-Library"
READER = "test2:reader"


def check(value: str, method: str = "POST", path: str = "") -> None:
    request = Request.blank(f"/v1/{ACCOUNT}{path}", method=method, headers={NAME: value})
    operation = parse(request.environ)
    assert operation is not None
    require_valid(operation)


@pytest.mark.parametrize("value", ["all", "users", " Owners ", "none", ""])
def test_a_known_value_is_accepted(value: str) -> None:
    check(value)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_unknown_value_is_refused_with_the_nearest(method: str) -> None:
    with pytest.raises(BadRequest, match="want all, users, owners, none; did you mean users"):
        check("user", method)


def test_the_header_means_nothing_elsewhere() -> None:
    check("wrong", "GET")
    check("wrong", "POST", "/c")


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("", [OWNER, READER]),
        ("all", [OWNER, READER, ""]),
        ("users", [OWNER, READER]),
        ("owners", [OWNER]),
        ("none", []),
        ("nonsense", []),
    ],
)
@pytest.mark.usefixtures("node")
def test_the_setting_decides_which_callers_run_the_library(
    proxy: Proxy, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch, value: str, allowed: list[str]
) -> None:
    swift.put("c", "o", b"text")
    swift.account_headers = {NAME: value} if value else {}

    def authorize(request: object) -> None:
        """The container is public."""
        environ = request.environ  # type: ignore[attr-defined]
        if environ.get("REMOTE_USER") == OWNER:
            environ["swift_owner"] = True

    for user in (OWNER, READER, ""):
        answer = proxy.call(
            "GET", "c/o", {"X-Run-Storlet": "std:nop"}, user=user,
            environ={"swift.authorize": authorize},
        )  # fmt: skip
        if user in allowed:
            assert (answer.status, answer.data) == (200, b"TEXT")
        else:
            assert (answer.status, answer.error) == (403 if user else 401, "access.denied")
            shown = {"": "users", "nonsense": "none"}.get(value, value)
            assert f"({NAME}: {shown})" in answer.data.decode()


def test_own_storlets_are_not_concerned(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    swift.put("c", "o", b"text")
    swift.put_storlet("own.py")
    swift.account_headers = {NAME: "none"}
    assert proxy.call("GET", "c/o", {"X-Run-Storlet": "own.py"}).data == b"TEXT"
    steps = {"X-Run-Storlet": "std:sequence", "X-Storlet-Parameter-1": 'steps:["std:nop"]'}
    assert proxy.call("GET", "c/o", steps).status == 403
    assert len(node.workers.runs) == 1


def test_a_distribution_needs_the_setting_too(proxy: Proxy, swift: FakeSwift) -> None:
    swift.put("c", "o", b"text")
    swift.account_headers = {NAME: "none"}
    body = b'{"objects": ["/c/o"], "split": "own.py"}'
    headers = {"X-Run-Storlet": "std:distributed"}
    answer = proxy.call("POST", f"/v1/{ACCOUNT}", headers, body=body)
    assert (answer.status, answer.error) == (403, "access.denied")
