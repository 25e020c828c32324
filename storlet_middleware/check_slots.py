"""Slots of a proxy process for checks of rules or bundles, shared fairly by accounts.

An account has one slot at a time, so its uploads wait for each other, and only one of them waits
for a slot of the process.  Those are granted in the order of requests, so an account waits for at
most one check of each other account that uploads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from storlet_middleware.concurrency import KeyedSemaphore, WaitExpired, monotonic


class NoSlot(Exception):
    """No slot became free in time."""


class CheckSlots:
    """See the module.

    :param count: slots of the process.
    """

    def __init__(self, count: int) -> None:
        self._process = KeyedSemaphore(count)
        self._accounts = KeyedSemaphore(1)

    @contextlib.contextmanager
    def held(self, account: str, seconds: float) -> Iterator[None]:
        """Hold a slot for a check of ``account``; raise :class:`NoSlot` after ``seconds``."""
        deadline = monotonic() + seconds
        with contextlib.ExitStack() as slots:
            try:
                slots.enter_context(self._accounts.held(account, seconds))
                slots.enter_context(self._process.held("", max(0.0, deadline - monotonic())))
            except WaitExpired:
                raise NoSlot from None
            yield
