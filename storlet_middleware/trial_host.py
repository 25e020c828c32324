"""Self-tests of sandboxes that must fail on a machine that lacks a feature.

In production an operator decides for each node which of them are accepted.  The all-in-one cluster
and local runs accept those that their machine cannot pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Self-tests that fail where the machine lacks a feature: key of Docker's ``/info``, test.
NEEDS: Final = (
    ("MemoryLimit", "limit-memory"),
    ("SwapLimit", "limit-memory"),
    ("PidsLimit", "limit-processes"),
)
#: Bit of ``CapEff``; containers and small virtual machines have a root without it.
_SYS_RESOURCE: Final = 24


def acceptable(host: Mapping[str, Any], capabilities: int) -> tuple[str, ...]:
    """Names of self-tests that must fail on this machine.

    :param host: Docker's ``/info``.
    """
    names = [test for fact, test in NEEDS if not host.get(fact)]
    if not capabilities >> _SYS_RESOURCE & 1:
        names.append("limit-oom-score-kept")
    return tuple(dict.fromkeys(names))


def own_capabilities() -> int:
    """``CapEff`` of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
