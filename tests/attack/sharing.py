"""Attacks through what a storlet shares with Swift's process: streams, offsets, descriptors.

Swift's servers run one event loop each: a system call of theirs that waits for a storlet delays all
requests.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from storlet_middleware.cli.kept_space import kept_by, user_of
from tests.attack.arena import ENDS_SOON, NO_OUTPUT, Attacker, must, outcome
from tests.attack.attack import PYTHON, Attack
from tests.attack.exhaustion import BROKEN, FIRST_BYTE
from tests.support.accounts import unique
from tests.support.host import new_key
from tests.support.http import Answer
from tests.support.waiting import wait_for

TOTAL: Final = "422 storlet.timeout.total"
#: The default of ``[limits] outputs``.
OUTPUTS: Final = 8
#: Less than the limit of output.
INPUT_BYTES: Final = 6 << 20


def at_once(
    attacker: Attacker,
    runs: Iterable[int],
    do: str,
    *allowed: str,
    headers: Mapping[str, str] = ENDS_SOON,
) -> str:
    """One or more GETs at once end with an allowed outcome, and all of their processes end."""
    path, key = f"data/{unique('shared')}", new_key()
    must(attacker.client.put(path, b"x" * INPUT_BYTES).status == 201, "the object is not stored")
    answers: list[Answer] = list(
        attacker.arena.pool.map(lambda _: attacker.tool.get(path, do, headers, key=key), runs)
    )
    seen = sorted({outcome(answer) for answer in answers})
    must(set(seen) <= set(allowed), seen)
    wait_for(lambda: not attacker.host.runs_named(key), 10, "their processes to end")
    attacker.recovers()
    return ", ".join(seen)


def byte_flood(attacker: Attacker) -> str:
    return at_once(attacker, range(4), "byte_flood", BROKEN)


def byte_floods(attacker: Attacker) -> str:
    """Several outputs of one run; nothing of them is stored."""
    key = new_key()
    targets = [f"data/{unique('flood')}" for _ in range(OUTPUTS)]
    headers = ENDS_SOON | {"X-Storlet-Output": ", ".join("/" + target for target in targets)}
    answer = attacker.tool.get(attacker.path, "byte_floods", headers, key=key)
    must(outcome(answer) == BROKEN, answer)
    wait_for(lambda: not attacker.host.runs_named(key), 10, "its processes to end")
    stored = [target for target in targets if attacker.client.head(target).status != 404]
    must(not stored, f"stored: {stored}")
    attacker.recovers()
    return outcome(answer)


def cold_output(attacker: Attacker) -> str:
    return at_once(attacker, range(1), "cold_output", BROKEN)


def cold_input(attacker: Attacker) -> str:
    return at_once(attacker, range(1), "cold_input", FIRST_BYTE, headers=NO_OUTPUT)


def many_locks(attacker: Attacker) -> str:
    return at_once(attacker, attacker.repeats(4, 2), "many_locks", FIRST_BYTE, headers=NO_OUTPUT)


def flushes(attacker: Attacker) -> str:
    return at_once(attacker, attacker.repeats(4, 2), "flushes", FIRST_BYTE, headers=NO_OUTPUT)


def slow_descriptors(attacker: Attacker) -> str:
    """No descriptor reaches Swift's process."""
    report = attacker.report("slow_descriptors")
    passed = {name: told for name, told in report.items() if told.startswith("got")}
    must(len(report) == 3 and not passed, report)
    return ", ".join(sorted(set(report.values())))


def kept_objects(attacker: Attacker) -> str:
    """The logger and the streams of a run are of no use in the next one, whose bytes are right."""
    for _ in range(20):  # until a run is in a process that has had one
        answer = attacker.shoot("keep_objects")
        must(outcome(answer) == "200", answer)
        report, _, content = answer.body.partition(b"\n")
        if report != b"first":
            break
    found: dict[str, str] = json.loads(report)
    must(len(found) == 6, found)
    must(not [name for name, got in found.items() if got.startswith("got")], found)
    must(content == attacker.tenant.content, answer)
    attacker.recovers()
    return ", ".join(sorted(set(found.values())))


def kept_mapping(attacker: Attacker) -> str:
    """The space of a deleted object is counted, and free when the worker is ended from outside."""
    path, key = f"data/{unique('mapped')}", new_key()
    must(attacker.client.put(path, b"x" * INPUT_BYTES).status == 201, "the object is not stored")
    answer = attacker.tool.get(path, "keep_mapping", key=key)
    must(outcome(answer) == "200", answer)
    must(attacker.client.delete(path).status == 204, "the object is not deleted")
    user = user_of(Path(f"/proc/{attacker.host.sandbox(attacker.tenant.account).pid}"))
    wait_for(lambda: kept_by({user})[user].size_bytes >= INPUT_BYTES, 10, "the space to be counted")
    kept = kept_by({user})[user]
    must(kept.in_messages or answer.body != b"kept", kept)
    for worker in attacker.host.runs_named(key):
        os.kill(worker.pid, signal.SIGKILL)
    wait_for(lambda: not kept_by({user})[user].files, 10, "the space to be free")
    attacker.recovers()
    return f"{kept.size_bytes >> 20} MiB counted until its worker's end; message: {answer.text}"


ROWS: Final = (
    Attack("output byte by byte, four at once", "200 broken at the total deadline", byte_flood, PYTHON),
    Attack("several outputs byte by byte at once", "200 broken, nothing stored", byte_floods, PYTHON),
    Attack("output from cold pages", "200 broken at a limit", cold_output, PYTHON),
    Attack("cold reads of the input", "422 first byte", cold_input, PYTHON),
    Attack("locks by the thousand on the input and in memory", "422 first byte", many_locks, PYTHON),
    Attack("flushes of the input without end", "422 first byte", flushes, PYTHON),
    Attack("objects kept from another run", "each use raises", kept_objects, PYTHON),
    Attack("keeps a deleted object", "its space is counted and ends with the worker", kept_mapping, PYTHON),
    Attack("descriptors that are slow to close", "the kernel refuses them", slow_descriptors, PYTHON),
)  # fmt: skip
