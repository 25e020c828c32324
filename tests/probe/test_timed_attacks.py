"""Each attack of ``tests/attack`` that compares times of requests: it ends as the table states, a
neighbour sees no error, nothing is left.

These attacks are on proxies, so they run under the usual limits of sandboxes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attack.arena import Arena
from tests.attack.attack import Attack
from tests.attack.neighbour import Neighbour
from tests.attack.table import EXHAUSTION
from tests.attack.trial import name_of, rows_of, try_row
from tests.support.cluster import Cluster

#: Compares times.
pytestmark = pytest.mark.alone

TIMED = [one for one in EXHAUSTION if one.is_timed]


@pytest.fixture(scope="module")
def arena(cluster: Cluster, nothing_is_left: None) -> Iterator[Arena]:
    made = Arena(cluster, is_short=True)
    yield made
    made.close()


@pytest.mark.parametrize(("attack", "language"), rows_of(TIMED), ids=name_of)
def test_attack(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    try_row(arena, load, attack, language)
