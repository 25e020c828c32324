"""Slots of a proxy process for checks of rules or bundles, shared fairly by accounts.

An account has one slot at a time, so its uploads wait for each other, and only one of them waits
for a slot of the process.  Those are granted in the order of requests, so an account waits for at
most one check of each other account that uploads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from storlet_middleware.concurrency import Semaphore, monotonic, semaphore


class NoSlot(Exception):
    """No slot became free in time."""


@dataclass
class _Account:
    """The slot of one account, and the number of its checks that run or wait."""

    slot: Semaphore = field(default_factory=lambda: semaphore(1))
    checks: int = 0


class CheckSlots:
    """See the module.

    :param count: slots of the process.
    """

    def __init__(self, count: int) -> None:
        self._slots = semaphore(count)
        self._accounts: dict[str, _Account] = {}

    @contextlib.contextmanager
    def held(self, account: str, seconds: float) -> Iterator[None]:
        """Hold a slot for a check of ``account``; raise :class:`NoSlot` after ``seconds``."""
        deadline = monotonic() + seconds
        own = self._accounts.setdefault(account, _Account())
        own.checks += 1
        try:
            with _acquired(own.slot, deadline), _acquired(self._slots, deadline):
                yield
        finally:
            own.checks -= 1
            if not own.checks:
                del self._accounts[account]


@contextlib.contextmanager
def _acquired(slot: Semaphore, deadline: float) -> Iterator[None]:
    if not slot.acquire(timeout=max(0.0, deadline - monotonic())):
        raise NoSlot
    try:
        yield
    finally:
        slot.release()
