"""Attacks through what a storlet shares with Swift's process: streams, offsets, descriptors.

Swift's servers run one event loop each: a system call of theirs that waits for a storlet delays all
requests.
"""

from __future__ import annotations

from typing import Final

from tests.attack.arena import Attacker, must, outcome
from tests.attack.attack import PYTHON, Attack
from tests.attack.exhaustion import BROKEN, FIRST_BYTE
from tests.support.accounts import unique
from tests.support.host import new_key
from tests.support.http import Answer
from tests.support.waiting import wait_for

TOTAL: Final = "422 storlet.timeout.total"
#: Less than the limit of output.
INPUT_BYTES: Final = 6 << 20


def at_once(attacker: Attacker, runs: int, do: str, *allowed: str) -> str:
    """One or more GETs at once end with an allowed outcome, and all of their processes end."""
    path, key = f"data/{unique('shared')}", new_key()
    must(attacker.client.put(path, b"x" * INPUT_BYTES).status == 201, "the object is not stored")
    answers: list[Answer] = list(
        attacker.arena.pool.map(lambda _: attacker.tool.get(path, do, key=key), range(runs))
    )
    seen = sorted({outcome(answer) for answer in answers})
    must(set(seen) <= set(allowed), seen)
    wait_for(lambda: not attacker.host.runs_named(key), 10, "their processes to end")
    attacker.recovers()
    return ", ".join(seen)


def byte_flood(attacker: Attacker) -> str:
    return at_once(attacker, 4, "byte_flood", BROKEN)


def cold_output(attacker: Attacker) -> str:
    return at_once(attacker, 1, "cold_output", BROKEN)


def cold_input(attacker: Attacker) -> str:
    return at_once(attacker, 1, "cold_input", FIRST_BYTE, TOTAL)


def slow_descriptors(attacker: Attacker) -> str:
    """No descriptor reaches Swift's process."""
    report = attacker.report("slow_descriptors")
    passed = {name: told for name, told in report.items() if told.startswith("got")}
    must(len(report) == 3 and not passed, report)
    return ", ".join(sorted(set(report.values())))


ROWS: Final = (
    Attack("output byte by byte, four at once", "200 broken at the total deadline", byte_flood, PYTHON),
    Attack("output from cold pages", "200 broken at a limit", cold_output, PYTHON),
    Attack("cold reads of the input", "422 first byte or total", cold_input, PYTHON),
    Attack("descriptors that are slow to close", "the kernel refuses them", slow_descriptors, PYTHON),
)  # fmt: skip
