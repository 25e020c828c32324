"""Hostile code in C, in the worker's own process: without an interpreter between it and the kernel.

``storlets/native/hostile.c`` is a shared object, so it has every descriptor of the worker."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.attack.arena import Attacker, must, outcome
from tests.attack.attack import NATIVE, Attack
from tests.attack.escape import all_refused, calls, donated
from tests.attack.lies import TO_FILTER, TO_SUPERVISOR
from tests.support.cluster import CHECKOUT

SOURCE: Final = CHECKOUT / "tests/attack/storlets/native/hostile.c"
INCLUDE: Final = CHECKOUT / "storlet_daemon/native"
_QUERY_BYTES: Final = 2000


def built() -> bytes:
    """The shared object of the hostile storlet."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "hostile.so")
        options = ["-O1", "-fPIC", "-shared", f"-I{INCLUDE}", "-o", str(target), str(SOURCE)]
        done = subprocess.run(["gcc", *options], capture_output=True, text=True, check=False)
        must(done.returncode == 0, done.stderr)
        return target.read_bytes()


def lies(attacker: Attacker) -> str:
    """A worker that answers wrongly on purpose, and then fails or exits: never a whole answer."""
    seen: dict[str, int] = {}
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
            seen[found] = seen.get(found, 0) + 1
    attacker.recovers()
    return ", ".join(f"{what} x{count}" for what, count in sorted(seen.items()))


ROWS: Final = (
    Attack("system calls by number, in C", "EPERM or ENOSYS", calls, NATIVE),
    Attack("traces and signals its neighbours, in C", "refused", all_refused("neighbours"), NATIVE),
    Attack("donated descriptor, in C", "read-only, disk unchanged", donated, NATIVE),
    Attack("answers the protocol wrongly, in C", "an error of its own run", lies, NATIVE),
)
