"""Fixtures for the tests of object nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import eventlet
import pytest

from tests.unit.middleware.object_nodes import Fixture
from tests.unit.middleware.support import Node, open_descriptors, wait_until


@pytest.fixture
def at(node: Node, short_dir: Path) -> Iterator[Fixture]:
    eventlet.sleep()
    before = open_descriptors()
    made = Fixture(node, short_dir)
    yield made
    made.close()
    node.workers.settle()
    assert wait_until(lambda: open_descriptors() <= before)
