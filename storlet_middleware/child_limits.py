"""The limits of a process that works on input of tenants, set by the process itself.

See :mod:`storlet_middleware.child`.  This module imports nothing that such a process does not need:
a node unpacks bundles in one while a request waits.
"""

from __future__ import annotations

import os
import resource
from typing import Final

_MEMORY_BYTES: Final = 1 << 30
_NICE: Final = 10
#: The exit status after :class:`MemoryError`.
NO_MEMORY: Final = 3


def confine(cpu_seconds: int) -> None:
    """Limit this process; it also gives way to the node's other processes."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def give_way() -> None:
    """Let the node's other processes run first: no request waits for this one."""
    os.nice(_NICE)
