"""The objects of the row ``scaling``: where they are, and that a disk has room for them."""

from __future__ import annotations

import pytest

from tests.bench.plan import FULL, QUICK, Plan
from tests.bench.rows.scaling import COUNTS, bytes_on, objects_on


@pytest.mark.parametrize("count", COUNTS)
def test_every_node_of_a_distribution_has_its_share_of_the_objects(count: int) -> None:
    assert all(objects_on(at) >= 16 // count for at in range(count))
    assert objects_on(count - 1) == 16 // count


@pytest.mark.parametrize("plan", [FULL, QUICK])
def test_no_node_has_more_bytes_than_the_first_one(plan: Plan) -> None:
    """The size of all disks; the objects of each kind of work stay on them."""
    seconds = plan.scaling_seconds
    first = bytes_on(0, seconds)
    assert first == seconds * (3_000_000 + 4_000_000 + 4_000_000)
    assert all(bytes_on(at, seconds) <= first for at in range(max(COUNTS)))
