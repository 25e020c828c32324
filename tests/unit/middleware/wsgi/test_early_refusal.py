"""Swift's refusal of a PUT before it is sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from swift.common.swob import Request

from storlet_middleware.wsgi import early_refusal
from tests.unit.middleware import support
from tests.unit.middleware.support import ACCOUNT, OWNER, FakeSwift

Status = Callable[..., int | None]


@pytest.fixture
def status(swift: FakeSwift, monkeypatch: pytest.MonkeyPatch) -> Status:
    """The status of the refusal; ``None`` without one."""

    def status(user: str = OWNER, container: str = "c", *pipeline: str) -> int | None:
        monkeypatch.setattr(early_refusal, "get_swift_info", lambda: pipeline)
        given = {"REMOTE_USER": user, "swift.authorize": support.authorize}
        request = Request.blank(f"/v1/{ACCOUNT}/{container}/new", given, method="PUT")
        before = dict(request.environ)
        answer = early_refusal.refusal_of(swift, request.environ)
        assert request.environ == before
        assert not swift.requests("PUT")
        return None if answer is None else answer.status_int

    return status


@pytest.mark.parametrize(
    ("user", "container", "expected"),
    [
        (OWNER, "c", None),
        (OWNER, "none", 404),
        ("test:writer", "c", None),
        ("test:reader", "c", 403),
        ("test:reader", "none", 403),
        ("", "c", 401),
    ],
)
def test_rights_and_the_container_are_checked(
    status: Status, swift: FakeSwift, user: str, container: str, expected: int | None
) -> None:
    swift.containers["c"].write = "test:writer"
    assert status(user, container) == expected


@pytest.mark.parametrize("user", [OWNER, "test:reader"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_used_up_quota_of_a_container_refuses_where_swift_checks_it(
    status: Status, swift: FakeSwift, user: str, *, is_there: bool
) -> None:
    swift.containers["c"].sysmeta = {
        "X-Container-Meta-Quota-Count": "1",
        "X-Container-Object-Count": "1",
    }
    refused = 413 if is_there else None
    pipeline = ["container_quotas", "account_quotas"] if is_there else []
    assert status(user, "c", *pipeline) == (refused if user == OWNER else 403)


def test_a_used_up_quota_of_an_account_refuses(
    status: Status, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond = swift.respond

    def with_quota(request: object) -> object:
        answer = respond(request)
        answer.headers["X-Account-Meta-Quota-Bytes"] = "5"
        answer.headers["X-Account-Bytes-Used"] = "6"
        return answer

    monkeypatch.setattr(swift, "respond", with_quota)
    assert status(OWNER, "c", "account_quotas") == 413
    assert status(OWNER, "c") is None
