"""Swift's own authorization, with the container's ACL, earlier than Swift does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi.authorization import Verdict, authorize, is_owner
from storlet_middleware.wsgi.context import install
from storlet_middleware.wsgi.swift_paths import object_path
from tests.unit.middleware import support
from tests.unit.middleware.support import ACCOUNT, OWNER, FakeSwift


@pytest.fixture
def ask(swift: FakeSwift) -> Callable[..., Verdict]:
    """Authorizes a user's GET or PUT of an object."""
    swift.containers["c"].read, swift.containers["c"].write = "test:reader", "test:writer"

    def ask(
        user: str, method: str = "GET", container: str = "c", name: str = "o", **environ: Any
    ) -> Verdict:
        given = {"REMOTE_USER": user, "swift.authorize": support.authorize} | environ
        request = Request.blank(f"/v1/{ACCOUNT}/elsewhere/x?format=json", given, method="POST")
        before = dict(request.environ)
        verdict = authorize(
            request.environ, swift, method, object_path("v1", ACCOUNT, container, name)
        )
        assert request.environ == before
        return verdict

    return ask


@pytest.mark.parametrize(
    ("user", "method", "status"),
    [
        (OWNER, "GET", None),
        (OWNER, "PUT", None),
        ("test:reader", "GET", None),
        ("test:reader", "PUT", 403),
        ("test:writer", "GET", 403),
        ("test:writer", "PUT", None),
        ("", "GET", 401),
        ("", "PUT", 401),
    ],
)
def test_the_acl_of_the_container_decides_by_method(
    ask: Callable[..., Verdict], user: str, method: str, status: int | None
) -> None:
    verdict = ask(user, method)
    assert (verdict.refusal.status_int if verdict.refusal else None) == status
    assert verdict.is_owner == (user == OWNER)


def test_the_check_sends_no_request_for_the_object(
    ask: Callable[..., Verdict], swift: FakeSwift
) -> None:
    ask("test:reader")
    assert {(seen.method, seen.path) for seen in swift.seen} <= {
        ("HEAD", f"/v1/{ACCOUNT}"),
        ("HEAD", f"/v1/{ACCOUNT}/c"),
    }


def test_a_missing_container_has_its_own_status(ask: Callable[..., Verdict]) -> None:
    assert ask(OWNER, "PUT", "none").container_status == 404
    assert ask("test:reader", "GET", "none").refusal.status_int == 403
    assert ask(OWNER, "PUT", "c").container_status // 100 == 2


def test_names_that_need_quoting_are_checked_as_text(
    ask: Callable[..., Verdict], swift: FakeSwift
) -> None:
    swift.put("größe ?%".encode().decode("latin-1"), "o")
    swift.containers["größe ?%".encode().decode("latin-1")].read = "test:reader"
    assert ask("test:reader", container="größe ?%", name="a?b%20ü").refusal is None


def test_without_an_authentication_middleware_every_caller_owns_the_account(
    ask: Callable[..., Verdict],
) -> None:
    verdict = ask("", "PUT", **{"swift.authorize": None})
    assert (verdict.refusal, verdict.is_owner) == (None, True)


def test_rules_are_not_evaluated(swift: FakeSwift) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.refused: list[Any] = [RuleRefused("r", "no")]

        def __call__(self, request: Any) -> Any:
            raise AssertionError("the rules were evaluated")

    environ = Request.blank(
        f"/v1/{ACCOUNT}/c/o", {"REMOTE_USER": OWNER, "swift.authorize": support.authorize}
    ).environ
    rules: Any = Refusing()
    install(environ, None, rules)
    verdict = authorize(environ, swift, "GET", object_path("v1", ACCOUNT, "c", "o"))
    assert (verdict.refusal, verdict.is_owner) == (None, True)


@pytest.mark.parametrize(
    ("user", "is_known_owner"), [(OWNER, True), ("test:reader", False), ("", False)]
)
def test_the_owner_is_known_without_a_request(
    swift: FakeSwift, user: str, is_known_owner: bool
) -> None:
    given = {"REMOTE_USER": user, "swift.authorize": support.authorize, "swift_owner": True}
    request = Request.blank(f"/v1/{ACCOUNT}/elsewhere/x", given)
    before, seen = dict(request.environ), list(swift.seen)
    assert is_owner(request.environ, object_path("v1", ACCOUNT, "c", "o")) == is_known_owner
    assert (request.environ, swift.seen) == (before, seen)
    request.environ["swift.authorize"] = None
    assert is_owner(request.environ, object_path("v1", ACCOUNT, "c", "o"))
