"""The CPU time of sandboxd that the messages of one sandbox may take, but for its answers.

Code of a tenant may control the supervisor, and every message costs time of the one loop that
serves all sandboxes.  A new worker takes about 2 ms, so a sandbox that starts a hundred of
them in each second stays within its share.
"""

from __future__ import annotations

import time
from typing import Final

#: Part of one CPU.
SHARE: Final = 0.3
#: The time that it may take at once, such as for all its workers after a restart of sandboxd.
BURST_SECONDS: Final = 4.0


class CpuShare:
    """A token bucket of CPU seconds."""

    def __init__(self) -> None:
        self._left = BURST_SECONDS
        self._at = time.monotonic()

    def take(self, seconds: float) -> bool:
        """Note a use of CPU time; return whether the sandbox is still within its share."""
        now = time.monotonic()
        self._left = min(BURST_SECONDS, self._left + (now - self._at) * SHARE) - seconds
        self._at = now
        return self._left >= 0
