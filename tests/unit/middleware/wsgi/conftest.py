"""Fixtures for the tests of grants."""

from __future__ import annotations

import pytest

from tests.unit.middleware.support import FakeSwift, Proxy


@pytest.fixture
def granted(proxy: Proxy, swift: FakeSwift) -> Proxy:
    """A proxy where test:bob may run storlets and read container c through up.py."""
    swift.containers["storlet"].read = "test:bob"
    answer = proxy.call(
        "POST", "c", {"X-Storlet-Container-Read": "test:bob", "X-Storlet-Name": "up.py"}
    )
    assert answer.status == 204
    return proxy
