"""``python3 -m tests.attack.syscalls``: which system calls a sandbox of class ``user`` refuses, as
a golden file.

Each number of x86-64 is tried in a child process with meaningless arguments. ``EPERM``, ``ENOSYS``
and (for extended attributes) ``ENOTSUP`` are a refusal by policy or by the kernel; any other result
means that the call was admitted. ``tests/attack/syscalls.golden`` holds the expected outcomes;
``--write`` writes it again after an intended change of the profile. A call that is allowed with
some arguments only (``clone``, ``socket``, ``ioctl``, ``personality``, and ``sendmsg`` and others
without ``MSG_OOB``) is checked by the attack "dangerous system calls" and by the self-test.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.attack.arena import Attacker, arena_on

GOLDEN: Final = Path(__file__).parent / "syscalls.golden"
FIRST: Final = 0
LAST: Final = 462
#: Not tried: they end or stop the child with any arguments, or wait without a time limit
#: (rt_sigreturn, pause, exit, rt_sigsuspend, exit_group), or newer kernels answer them before any
#: filter does (uretprobe, uprobe).
SPARED: Final = (15, 34, 60, 130, 231, 335, 336)
#: Newer than the headers of the oldest supported build system.
_NEW: Final = {
    451: "cachestat", 452: "fchmodat2", 453: "map_shadow_stack", 454: "futex_wake", 455: "futex_wait", 456: "futex_requeue",
    457: "statmount", 458: "listmount", 459: "lsm_get_self_attr", 460: "lsm_set_self_attr", 461: "lsm_list_modules", 462: "mseal",
}  # fmt: skip
_HEADERS: Final = (
    Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    Path("/usr/include/asm/unistd_64.h"),
)


def look(attacker: Attacker) -> dict[int, str]:
    """By number: ``refused``, ``allowed`` or ``spared``."""
    spare = ",".join(map(str, SPARED))
    found: dict[int, str] = {}
    # In batches: a child per call takes a millisecond or two, and the invocation deadline is short
    # here.
    for first in range(FIRST, LAST + 1, 25):
        last = min(first + 24, LAST)
        answer = attacker.report("table_of_calls", first=str(first), last=str(last), spare=spare)
        found |= {int(number): seen for number, seen in answer.items()}
    return found


def compare(attacker: Attacker) -> list[str]:
    """The differences between the sandbox and the golden file."""
    golden = read()
    found = look(attacker)
    return [
        f"{number} {golden[number][0]}: {found.get(number)}, expected {golden[number][1]}"
        for number in golden
        if found.get(number) != golden[number][1]
    ]


def read() -> dict[int, tuple[str, str]]:
    """The golden file: number to name and outcome."""
    lines = (
        line.split()
        for line in GOLDEN.read_text(encoding="ascii").splitlines()
        if not line.startswith("#")
    )
    return {int(number): (name, outcome) for number, name, outcome in lines}


def names() -> dict[int, str]:
    """Names of the numbers, from the C library's headers."""
    for header in _HEADERS:
        if header.exists():
            pairs = re.findall(r"#define __NR_(\w+)\s+(\d+)", header.read_text(encoding="ascii"))
            return _NEW | {int(number): name for name, number in pairs}
    raise SystemExit("no asm/unistd_64.h: install linux-libc-dev")


def write(found: dict[int, str]) -> None:
    known = names()
    lines = [
        "# Written by `python3 -m tests.attack.syscalls --write`: number, name, outcome in a sandbox of class user."
    ]
    lines += [f"{number} {known.get(number, '-')} {found[number]}" for number in sorted(found)]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="ascii")


def main() -> int:
    """Entry point; returns the exit code."""
    from tests.attack.__main__ import cluster_of_its_own  # noqa: PLC0415  the other imports this module

    parser = argparse.ArgumentParser(
        prog="tests.attack.syscalls", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument("--write", action="store_true", help="write the golden file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(), cluster_of_its_own() as cluster, arena_on(cluster) as arena:
        attacker = arena.attacker("python")
        if options.write:
            write(look(attacker))
            return 0
        faults = compare(attacker)
    print("\n".join(faults) or f"as in {GOLDEN.name}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
