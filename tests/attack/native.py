"""Hostile code in C, in the worker's own process: without an interpreter between it and the kernel.

``storlets/native/hostile.c`` is a shared object, so it has every descriptor of the worker. A
program has the streams of the filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tests.attack.arena import DEADLINES, ENDS_SOON, NO_OUTPUT, Attacker, must, outcome
from tests.attack.attack import NATIVE, Attack
from tests.attack.escape import all_refused, calls, donated
from tests.attack.lies import TO_FILTER, TO_SUPERVISOR
from tests.support.cluster import CHECKOUT
from tests.support.native import shared_object
from tests.support.storlets import Tool, declaration

SOURCE: Final = CHECKOUT / "tests/attack/storlets/native/hostile.c"
_QUERY_BYTES: Final = 2000
#: The hostile storlet under a name with services.
ASKING: Final = "asking.so"


def built() -> bytes:
    """The shared object of the hostile storlet."""
    return shared_object(SOURCE)


def lies(attacker: Attacker) -> str:
    """A worker that answers wrongly on purpose, and then fails or exits: never a whole answer."""
    seen = []
    for to, message in [
        *(("filter", each) for each in TO_FILTER),
        *(("supervisor", each) for each in TO_SUPERVISOR),
    ]:
        text = message.decode("utf-8", "replace")
        if not text or "\0" in text or len(message) > _QUERY_BYTES:
            continue
        for then in ("fail", "exit"):
            answer = attacker.shoot("lie", to=to, text=text, then=then)
            found = outcome(answer)
            must(found != "200", (to, text[:80], answer))
            must(answer.error not in ("internal", "access.denied"), (to, text[:80], answer))
            must("X-Forged" not in answer.headers, (to, text[:80], answer))
            seen.append(found)
    attacker.recovers()
    return _counted(seen)


WAYS: Final = (
    "garbage", "empty", "large", "descriptors", "stats", "opens", "backwards", "close", "leave",
    "threads",
)  # fmt: skip


def services(attacker: Attacker) -> str:
    """Wrong uses of the services' socket: each ends its own run, and no other."""
    client, arena = attacker.client, attacker.arena
    headers = declaration(
        "native", f"{ASKING}:hostile", Services="read, list, write, delete", **DEADLINES
    )
    answer = client.put(f"storlet/{ASKING}", arena.native, headers)
    must(answer.status == 201, answer)
    tool = Tool(client, ASKING)

    def end_of(way: str) -> str:
        # The time of a service counts for the total deadline only.
        ends = ENDS_SOON | NO_OUTPUT
        answer = tool.get(attacker.path, "services", ends, way=way, object=f"/{attacker.path}")
        must(answer.status == 422, (way, answer))
        must(answer.error not in ("internal", "access.denied"), (way, answer))
        return outcome(answer)

    seen = _counted(arena.pool.map(end_of, WAYS))
    for _ in WAYS:
        again = tool.get(attacker.path, "identity")
        must(again.body == attacker.tenant.content, again)
    return seen


def _counted(ends: Iterable[str]) -> str:
    return ", ".join(f"{what} x{count}" for what, count in sorted(Counter(ends).items()))


#: A program that exits while a process of another session may still write its output.
LEAVER: Final = b"""#!/bin/sh
printf first
setsid sh -c "$STORLET_PARAM_then" &
"""
LEFT: Final = ("sleep 30", "sleep 5; printf more", "while :; do printf more; done")


def leaves(attacker: Attacker) -> str:
    """A process that a program leaves with its output: no answer is complete without its bytes."""
    client = attacker.client
    headers = declaration("native", "leaver.sh", **DEADLINES)
    must(client.put("storlet/leaver.sh", LEAVER, headers).status == 201, "the storlet")

    def end_of(then: str) -> str:
        answer = Tool(client, "leaver.sh").get(attacker.path, "leave", ENDS_SOON, then=then)
        must(outcome(answer) != "200", (then, answer))
        must(answer.error not in ("internal", "access.denied"), (then, answer))
        return outcome(answer)

    seen = _counted(attacker.arena.pool.map(end_of, LEFT))
    attacker.recovers()
    return seen


ROWS: Final = (
    Attack("system calls by number, in C", "EPERM or ENOSYS", calls, NATIVE),
    Attack("traces and signals its neighbours, in C", "refused", all_refused("neighbours"), NATIVE),
    Attack("donated descriptor, in C", "read-only, disk unchanged", donated, NATIVE),
    Attack("answers the protocol wrongly, in C", "an error of its own run", lies, NATIVE),
    Attack("abuses its services, in C", "an error of its own run", services, NATIVE),
    Attack("leaves a writer of its output, a program", "an error of its own run", leaves, NATIVE),
)
