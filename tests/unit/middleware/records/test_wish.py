"""The wish for records of an account and of storlets."""

from __future__ import annotations

from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.errors import BadRequest
from storlet_middleware.records.wish import (
    DEFAULT,
    Wish,
    require_valid,
    wish_fault,
    wish_of_account,
    wish_of_run,
)
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.support import ACCOUNT, FakeSwift

NAME = "X-Account-Meta-Storlet-Records"


def check(value: str, method: str = "POST", path: str = "") -> None:
    request = Request.blank(f"/v1/{ACCOUNT}{path}", method=method, headers={NAME: value})
    operation = parse(request.environ)
    assert operation is not None
    require_valid(operation)


@pytest.mark.parametrize("value", ["all", "failures", "none", " None ", ""])
def test_a_valid_wish_is_accepted(value: str) -> None:
    check(value)


@pytest.mark.parametrize(("value", "near"), [("al", "all"), ("failed", "failures"), ("xyz", "")])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_wrong_wish_is_refused_with_the_nearest(value: str, near: str, method: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check(value, method)
    end = f"; did you mean {near}?" if near else ""
    assert str(caught.value) == f"{NAME}: {value!r}: want all, failures, none{end}"


def test_the_header_means_nothing_elsewhere() -> None:
    check("wrong", "GET")
    check("wrong", "POST", "/c")


@pytest.mark.parametrize(
    ("wish", "of_failures", "of_successes"),
    [(Wish.ALL, True, True), (Wish.FAILURES, True, False), (Wish.NONE, False, False)],
)
def test_a_wish_includes_runs(wish: Wish, of_failures: bool, of_successes: bool) -> None:
    assert wish.includes(is_failure=True) is of_failures
    assert wish.includes(is_failure=False) is of_successes


@pytest.mark.parametrize(
    ("value", "wish"),
    [(None, DEFAULT), ("", DEFAULT), ("all", Wish.ALL), ("NONE", Wish.NONE), ("wrong", DEFAULT)],
)
def test_the_wish_of_an_account_is_in_its_metadata(
    swift: FakeSwift, value: str | None, wish: Wish
) -> None:
    def answer(request: Any) -> Any:
        response = swift.respond(request)
        if value is not None:
            response.headers[NAME] = value
        return response

    swift.hooks["HEAD", f"/v1/{ACCOUNT}"] = answer
    request = Request.blank(f"/v1/{ACCOUNT}/c/o")
    assert wish_of_account(request.environ, swift, ACCOUNT) is wish
    asked = len(swift.seen)
    # Swift's info of the request is used.
    assert wish_of_account(request.environ, swift, ACCOUNT) is wish
    assert len(swift.seen) == asked


@pytest.mark.parametrize(
    ("own", "wish"),
    [
        ([""], Wish.FAILURES), (["all"], Wish.ALL), (["none"], Wish.NONE), ([], Wish.FAILURES),
        (["none", ""], Wish.FAILURES), (["none", "all"], Wish.ALL), (["wrong"], Wish.FAILURES),
    ],
)  # fmt: skip
def test_the_wish_of_a_storlet_replaces_the_accounts(own: list[str], wish: Wish) -> None:
    assert wish_of_run(Wish.FAILURES, own) is wish


def test_a_wish_without_a_value_has_no_fault() -> None:
    assert wish_fault("K", " ") == ""
