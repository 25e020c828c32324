"""The result of a distribution as an object; ``test_distributed`` has its behaviour."""

from __future__ import annotations

import pytest

from storlet_middleware.flows.stored_result import _is_reached


@pytest.mark.parametrize(
    ("quota", "used", "is_reached"),
    [
        ("10", 9, False),
        ("10", "10", True),
        ("10", 11, True),
        ("0", 0, True),
        ("", 5, False),
        (None, 5, False),
        ("many", 5, False),
        ("-1", 5, False),
        ("10", None, False),
    ],
)
def test_a_quota_is_reached(quota: str | None, used: int | None, is_reached: bool) -> None:
    assert _is_reached(quota, used) is is_reached
