"""Each attack of ``tests/attack`` on the resources of the machine: it ends as the table states, a
neighbour sees no error, nothing is left.

``test_timed_attacks.py`` has those that compare times.
"""

from __future__ import annotations

import pytest

from tests.attack.arena import Arena
from tests.attack.attack import Attack
from tests.attack.neighbour import Neighbour
from tests.attack.table import EXHAUSTION
from tests.attack.trial import name_of, rows_of, try_row

OTHERS = [one for one in EXHAUSTION if not one.is_timed]


@pytest.mark.parametrize(("attack", "language"), rows_of(OTHERS), ids=name_of)
def test_attack(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    try_row(arena, load, attack, language)
