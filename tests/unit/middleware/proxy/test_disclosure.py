"""The facts of the source, the run and the error that a caller sees."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import RUN, FakeSwift, Proxy

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


def test_only_the_owner_of_a_storlet_gets_its_traceback(make_proxy: Make, swift: FakeSwift) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = "test:bob"
    answer = make_proxy(failing()).call(
        "GET", "c/o", {**RUN, "Accept": "application/json"}, user="test:bob"
    )
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"secret" not in answer.data
    assert "detail" not in json.loads(answer.data)
