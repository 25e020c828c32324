"""How long to leave a sandbox alone that ends again and again.

The first :data:`FREE` ends in a row cost nothing, because whoever is served by the next sandbox should not notice one
that was killed.  After that the wait doubles from one second to :data:`LONGEST_SECONDS`.  A sandbox that lived for
:data:`STEADY_SECONDS` has proved itself and the count starts anew.
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
        """Note the end of a sandbox, or of an attempt to start one, that lived so long."""
        self.ends = 1 if lived_seconds >= STEADY_SECONDS else self.ends + 1
        self.last_reason = reason
        self.last_end = now
        delay = FIRST_SECONDS * 2.0 ** (self.ends - FREE - 1) if self.ends > FREE else 0.0
        self.not_before = now + min(delay, LONGEST_SECONDS)

    def wait_seconds(self, now: float) -> float:
        """How long the next start has to wait."""
        return max(0.0, self.not_before - now)

    def is_over(self, now: float) -> bool:
        """Whether the ends are so long ago that they can be forgotten."""
        return now - self.last_end > 2 * LONGEST_SECONDS
