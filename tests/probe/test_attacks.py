"""Each attempt of ``tests/attack`` to get out of a sandbox, to deceive or to misuse names: it ends
as the table states, a neighbour sees no error, nothing is left."""

from __future__ import annotations

import pytest

from tests.attack import leftovers
from tests.attack.arena import Arena
from tests.attack.attack import Attack
from tests.attack.neighbour import Neighbour
from tests.attack.syscalls import compare
from tests.attack.table import ATTEMPTS
from tests.attack.trial import name_of, rows_of, try_row
from tests.support.http import raw_connection


@pytest.mark.parametrize(("attack", "language"), rows_of(ATTEMPTS), ids=name_of)
def test_attack(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    try_row(arena, load, attack, language)


def test_the_system_calls_that_are_refused_are_those_of_the_golden_file(arena: Arena) -> None:
    assert compare(arena.attacker("python")) == []


def test_a_run_that_continues_is_left(arena: Arena) -> None:
    attacker = arena.attacker("python")
    attacker.recovers(30)
    before = leftovers.take(arena.host)
    with raw_connection(attacker.client) as client:
        flood = {"do": "flood", "bytes": str(1 << 40)}
        client.send_head("GET", attacker.path, attacker.tool.headers(), flood)
        assert client.read_head()[0] == 200
        found = leftovers.left(arena.host, before, 1)
        assert any(line.startswith("descriptor of object-") for line in found), found
    assert leftovers.left(arena.host, before) == []
