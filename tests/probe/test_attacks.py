"""Each attack of ``tests/attack``: it ends as the table states, a neighbour sees no error, no leak.

``make attack`` measures the neighbour's slowdown: a ratio of times is not suitable for a test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack import escape, leftovers
from tests.attack.arena import Arena, arena_on
from tests.attack.attack import Attack
from tests.attack.neighbour import RATE, Neighbour, load_of
from tests.attack.syscalls import compare
from tests.attack.table import TABLE
from tests.support.cluster import Cluster

#: Exhausts the machine's resources, and counts the leftovers.
pytestmark = pytest.mark.alone

ROWS = [(attack, language) for attack in TABLE if not attack.alone for language in attack.languages]


@pytest.fixture(scope="module")
def arena(cluster: Cluster, nothing_is_left: None) -> Iterator[Arena]:
    with arena_on(cluster) as made:
        yield made
        # After all attacks Swift's auditor finds every object intact.
        assert escape.audit(made.attacker("python")) == []


@pytest.fixture(scope="module")
def load(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbour]:
    user = arena.users["test2:tester2"]
    file: Path = tmp_path_factory.mktemp("neighbour") / "samples"
    # Errors are judged, and no times.
    with load_of(user.storage_url, user.token, file, RATE // 2) as neighbour:
        yield neighbour


@pytest.mark.parametrize(
    ("attack", "language"), ROWS, ids=lambda one: one.name if isinstance(one, Attack) else one
)
def test_attack(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    with arena.prepared(attack, language) as attacker:
        before = leftovers.take(arena.host)
        begin = time.monotonic()
        attack.run(attacker)
        assert leftovers.left(arena.host, before) == []
        assert load.between(begin, time.monotonic()).faults == []


def test_the_system_calls_that_are_refused_are_those_of_the_golden_file(arena: Arena) -> None:
    assert compare(arena.attacker("python")) == []
