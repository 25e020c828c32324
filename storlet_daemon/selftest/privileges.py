"""The users of the sandbox's processes, and the users that they cannot become."""

from __future__ import annotations

import os
from collections.abc import Callable

from storlet_daemon.selftest.model import Facts, SelfTest, listed, read

_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_FILTERED = "2"


def status() -> dict[str, str]:
    """``/proc/self/status``."""
    return {
        key: value.strip()
        for key, _, value in (
            line.partition(":") for line in read("/proc/self/status").splitlines()
        )
    }


def _capabilities(_facts: Facts) -> str:
    now = status()
    return listed(
        [f"{key} is {now.get(key)}" for key in _CAPABILITIES if int(now.get(key, "1"), 16)], 5
    )


def _no_new_privileges(_facts: Facts) -> str:
    value = status().get("NoNewPrivs")
    return "" if value == "1" else f"NoNewPrivs is {value}"


def _filter(_facts: Facts) -> str:
    value = status().get("Seccomp")
    return "" if value == _FILTERED else f"Seccomp is {value}: system calls are not filtered"


def _user(_facts: Facts) -> str:
    ids = {*os.getresuid(), *os.getresgid()}
    return f"it runs as {sorted(ids)}" if 0 in ids or len(set(os.getresuid())) > 1 else ""


def _groups(_facts: Facts) -> str:
    others = set(os.getgroups()) - {os.getgid()}
    return f"it is in the groups {sorted(others)}" if others else ""


def _become(_facts: Facts) -> str:
    other = os.getuid() + 1
    attempts: tuple[tuple[str, Callable[[], None]], ...] = (
        ("setgroups 0", lambda: os.setgroups([0])),
        ("setgid 0", lambda: os.setgid(0)),
        (f"setgid {other}", lambda: os.setgid(other)),
        ("setuid 0", lambda: os.setuid(0)),
        (f"setuid {other}", lambda: os.setuid(other)),
    )
    done = []
    for name, attempt in attempts:
        try:
            attempt()
        except OSError:
            continue
        done.append(name)
    return f"it could {listed(done, 5)}" if done else ""


TESTS = (
    SelfTest("capabilities", "privileges of root", _capabilities),
    SelfTest("no-new-privileges", "privileges through setuid files", _no_new_privileges),
    SelfTest("seccomp", "the kernel's whole surface", _filter),
    SelfTest("user", "root's files and processes", _user),
    SelfTest("groups", "files and sockets of groups of the host, such as docker", _groups),
    SelfTest("become-another", "root's and other tenants' uids", _become),
)
