"""Answers of failed requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import RUN, Proxy, upper

Make = Callable[..., Proxy]


@pytest.mark.parametrize(
    ("legacy", "headers", "script", "status"),
    [
        ("false", RUN, failing(), 422),
        ("true", RUN, failing(), 503),
        ("true", {"X-Run-Storlet": "none.py"}, upper, 401),
        ("false", {"X-Run-Storlet": "none.py"}, upper, 404),
    ],
)
def test_legacy_status_gives_the_old_codes_and_the_same_error(
    make_proxy: Make, legacy: str, headers: dict[str, str], script: Any, status: int
) -> None:
    answer = make_proxy(script, legacy_status=legacy).call("GET", "c/o", headers)
    assert answer.status == status
    assert answer.error in ("storlet.failed", "storlet.not_found")


def test_legacy_status_of_a_put_is_500(make_proxy: Make) -> None:
    assert (
        make_proxy(failing(), legacy_status="true").call("PUT", "c/new", RUN, body=b"x").status
        == 500
    )


def test_an_error_is_json_if_the_client_accepts_json(make_proxy: Make) -> None:
    answer = make_proxy(failing()).call("GET", "c/o", {**RUN, "Accept": "application/json"})
    said = json.loads(answer.data)
    assert (said["code"], said["message"]) == ("storlet.failed", "ValueError: no")
    assert "secret" in said["detail"]
    assert answer.headers["Content-Type"].startswith("application/json")
