"""The fixture of tests that send requests to a channel."""

from __future__ import annotations

from collections.abc import Iterator

import eventlet
import pytest

from tests.unit.middleware.services.asking import Asking, Make
from tests.unit.middleware.support import open_descriptors, wait_until


@pytest.fixture
def make() -> Iterator[Make]:
    """Make channels; each is closed twice, and no descriptor is left."""
    eventlet.sleep()  # the hub has a descriptor of its own
    before = open_descriptors()
    made: list[Asking] = []

    def make(**limits: int) -> Asking:
        made.append(Asking(**limits))
        return made[-1]

    yield make
    for each in made:
        each.close()
        each.close()
    assert wait_until(lambda: open_descriptors() <= before)
