"""The timestamps of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Times:
    """Timestamps of a run (monotonic seconds); ``None`` for those in the future."""

    began: float
    authorized: float | None = None
    first_byte: float | None = None

    def since_begin(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.began
