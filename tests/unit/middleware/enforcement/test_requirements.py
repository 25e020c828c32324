"""Operations that would bypass a rule are refused."""

from __future__ import annotations

import pytest

from tests.unit.middleware.ruled_proxy import BOB, Ruled, assert_closed, rule


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-3"},
        {"If-Match": "x"},
        {"If-None-Match": "*"},
        {"If-Range": "x"},
        {"X-Storlet-Range": "bytes=0-3"},
        {"X-Run-Storlet": "up.py"},
        {"X-Run-Storlet": "up.py", "X-Storlet-Range": "bytes=0-3"},
    ],
)
def test_a_request_for_a_part_of_the_object_is_refused(
    ruled: Ruled, headers: dict[str, str]
) -> None:
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}'", "run: up.py"))
    assert_closed(ruled.get(headers=headers, user=BOB))
