"""Exponential back-off before a sandbox that ended is started again.

The first :data:`FREE` ends in a row cause no delay, so that callers do not notice a killed sandbox.
After that the delay doubles from one second to :data:`LONGEST_SECONDS`.  The count starts again
after a sandbox that lived for :data:`STEADY_SECONDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FREE: Final = 5
FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 20.0


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
