"""Rows of the table as tests: each attack once, with a neighbour whose requests must all succeed.

``make attack`` measures the neighbour's slowdown: a ratio of times is not suitable for a test.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from tests.attack import leftovers
from tests.attack.arena import Arena, must
from tests.attack.attack import Attack
from tests.attack.neighbour import Neighbour

Row = tuple[Attack, str]


def rows_of(attacks: Iterable[Attack]) -> list[Row]:
    """One row for each language, without the attacks that stop servers: other probes do that."""
    return [
        (attack, language)
        for attack in attacks
        if not attack.alone
        for language in attack.tested or attack.languages
    ]


def name_of(part: Any) -> str:
    """The part of a row in the name of its test."""
    return part.name if isinstance(part, Attack) else str(part)


def try_row(arena: Arena, load: Neighbour, attack: Attack, language: str) -> None:
    """The attack ends as the table states, the neighbour sees no error, nothing is left."""
    with arena.prepared(attack, language) as attacker:
        before = leftovers.take(arena.host)
        begin = time.monotonic()
        attack.run(attacker)
        must(not (left := leftovers.left(arena.host, before)), left)
        must(not (faults := load.since(begin).faults), faults)
