"""The mark of an account whose log lines are followed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware.errors import BackendFailed
from storlet_middleware.records import followed
from tests.unit.middleware.records.made import ACCOUNT_PATH
from tests.unit.middleware.support import ACCOUNT, FakeSwift

HEADER = "X-Account-Sysmeta-Storlet-Followed-Until"
PATH = f"/v1/{ACCOUNT}"


def environ() -> dict[str, Any]:
    return {"PATH_INFO": PATH, "swift.infocache": {}}


def marked(swift: FakeSwift, value: str) -> None:
    swift.hooks["HEAD", PATH] = lambda request: Response(
        status=204, request=request, headers={HEADER: value}
    )


@pytest.mark.parametrize(
    ("value", "is_followed"),
    [("{later}", True), ("1", False), ("", False), ("soon", False), ("²", False)],
)
def test_a_mark_holds_until_its_time(swift: FakeSwift, value: str, is_followed: bool) -> None:
    marked(swift, value.format(later=int(time.time()) + 900))
    assert followed.is_followed(environ(), swift, ACCOUNT) is is_followed


def test_a_mark_is_set_some_minutes_ahead_and_renewed_before_its_end(swift: FakeSwift) -> None:
    followed.mark(swift, environ(), ACCOUNT_PATH)
    (post,) = swift.requests("POST", PATH)
    assert 120 < int(post.headers[HEADER]) - time.time() <= 180
    marked(swift, str(int(time.time()) + 150))
    followed.mark(swift, environ(), ACCOUNT_PATH)
    assert len(swift.requests("POST", PATH)) == 1
    marked(swift, str(int(time.time()) + 100))
    followed.mark(swift, environ(), ACCOUNT_PATH)
    assert len(swift.requests("POST", PATH)) == 2


def test_a_mark_that_swift_refuses_is_an_error(swift: FakeSwift) -> None:
    swift.hooks["POST", PATH] = lambda request: Response(status=503, request=request)
    with pytest.raises(BackendFailed, match="503"):
        followed.mark(swift, environ(), ACCOUNT_PATH)
