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
from tests.support.host import new_key
from tests.support.http import raw_connection
from tests.support.waiting import wait_for


@pytest.mark.parametrize(("attack", "language"), rows_of(ATTEMPTS), ids=name_of)
def test_attack(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    try_row(arena, load, attack, language)


def test_the_system_calls_that_are_refused_are_those_of_the_golden_file(arena: Arena) -> None:
    assert compare(arena.attacker("python")) == []


def test_a_run_that_continues_is_left(arena: Arena) -> None:
    attacker, key = arena.attacker("python"), new_key()
    attacker.recovers(30)
    before = leftovers.take(arena.host)
    with raw_connection(attacker.client) as client:
        # The honest storlet, whose deadlines are long.
        held = {"do": "hold", "key": key}
        client.send_head("GET", attacker.path, attacker.tenant.tool().headers(), held)
        wait_for(lambda: arena.host.runs_named(key), 30, "the run")
        found = leftovers.left(arena.host, before, 1)
        assert any(f"({key})" in line for line in found), found
    assert leftovers.left(arena.host, before) == []
