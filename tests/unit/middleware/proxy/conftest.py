"""Fixtures for the tests of runs at a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import eventlet
import pytest

from tests.unit.middleware.support import FakeSwift, Node, open_descriptors, wait_until


@pytest.fixture
def nothing_is_left_open(swift: FakeSwift, node: Node) -> Iterator[None]:
    """Check that a test leaves neither bodies of Swift nor descriptors open."""
    eventlet.sleep()  # the hub has a descriptor of its own
    before = open_descriptors()
    yield
    node.workers.settle()
    assert swift.unclosed() == 0
    # Sockets of the fixtures were open before.
    assert wait_until(lambda: open_descriptors() <= before)
