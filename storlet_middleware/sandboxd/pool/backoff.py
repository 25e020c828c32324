"""Exponential back-off before a sandbox that ended is started again.

The first :data:`FREE` ends in a row cause no delay, so that callers do not notice a killed sandbox.
After that the delay doubles from one second to :data:`LONGEST_SECONDS`.  The count starts again
after a sandbox that lived for :data:`STEADY_SECONDS`.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from storlet_daemon.protocol import messages
from storlet_middleware.errors import SandboxUnavailable

FREE: Final = 5
FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 20.0
#: A caller waits at most this long for the end of a back-off; else it is refused.
PATIENCE_SECONDS: Final = 2.0


@dataclass
class Backoff:
    """The ends of one sandbox key; times are the loop's seconds."""

    ends: int = 0
    last_reason: str = ""
    not_before: float = 0.0
    last_end: float = 0.0

    def ended(self, now: float, lived_seconds: float, reason: str) -> None:
        """Count the end of a sandbox, or of an attempt to start one, after ``lived_seconds``."""
        self.ends = 1 if lived_seconds >= STEADY_SECONDS else self.ends + 1
        self.last_reason = reason
        self.last_end = now
        delay = FIRST_SECONDS * 2.0 ** (self.ends - FREE - 1) if self.ends > FREE else 0.0
        self.not_before = now + min(delay, LONGEST_SECONDS)

    def wait_seconds(self, now: float) -> float:
        """How long the next start must wait."""
        return max(0.0, self.not_before - now)

    def is_over(self, now: float) -> bool:
        """Whether the last end is so long ago that the count can be dropped."""
        return now - self.last_end > 2 * LONGEST_SECONDS


class Backoffs:
    """The back-off of each sandbox key that had an end not long ago."""

    def __init__(self) -> None:
        self._by_key: dict[str, Backoff] = {}

    def __contains__(self, key: str) -> bool:
        """Whether the last sandbox of a key was lost or failed, not long ago."""
        return key in self._by_key

    def ended(self, key: str, lived_seconds: float, reason: str) -> None:
        """Count the end of a sandbox, or of an attempt to start one."""
        self._by_key.setdefault(key, Backoff()).ended(_now(), lived_seconds, reason)

    def check(self, key: str) -> None:
        """Raise :class:`SandboxUnavailable` when a start would have to wait too long."""
        wait = self.wait_seconds(key)
        if wait > PATIENCE_SECONDS:
            backoff = self._by_key[key]
            text = f"the sandbox ended {backoff.ends} times in a row, last: {backoff.last_reason}"
            raise SandboxUnavailable(messages.one_line(text), retry_after=math.ceil(wait))

    def wait_seconds(self, key: str) -> float:
        """How long the next start of a key must wait."""
        backoff = self._by_key.get(key)
        return backoff.wait_seconds(_now()) if backoff is not None else 0.0

    def forget_old(self) -> None:
        """Drop those that are over."""
        now = _now()
        self._by_key = {key: one for key, one in self._by_key.items() if not one.is_over(now)}


def _now() -> float:
    return asyncio.get_running_loop().time()
