"""Each attempt of ``tests/attack`` to get out of a sandbox, to deceive or to misuse names: it ends
as the table states, a neighbour sees no error, nothing is left."""

from __future__ import annotations

import pytest

from tests.attack.arena import Arena
from tests.attack.attack import Attack
from tests.attack.neighbour import Neighbour
from tests.attack.syscalls import compare
from tests.attack.table import ATTEMPTS
from tests.attack.trial import name_of, rows_of, try_row


@pytest.mark.parametrize(("attack", "language"), rows_of(ATTEMPTS), ids=name_of)
def test_attack(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    try_row(arena, load, attack, language)


def test_the_system_calls_that_are_refused_are_those_of_the_golden_file(arena: Arena) -> None:
    assert compare(arena.attacker("python")) == []
