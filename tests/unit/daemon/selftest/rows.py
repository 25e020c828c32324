"""Self-tests by name, in a child process as in a sandbox or directly."""

from __future__ import annotations

from typing import Any

from storlet_daemon import selftest
from storlet_daemon.protocol.messages import Resources
from storlet_daemon.selftest.model import Facts

ROWS = {row.name: row for row in selftest.TESTS}


def attempt(name: str, facts: Facts | None = None) -> str:
    """The result in this process: for tests that only read."""
    return ROWS[name].attempt(facts or Facts(0, 1))


def attempt_in_child(name: str, facts: Facts | None = None, **limits: Any) -> str:
    """The result in a child process, with these limits as the expected ones."""
    return selftest.outcome(ROWS[name], facts or Facts(0, 1, limits=Resources(**limits)))
