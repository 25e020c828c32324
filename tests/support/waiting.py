"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

#: The time between two looks at a condition grows to this: many of them are requests.
MOST_PAUSE_SECONDS: Final = 0.2


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until ``condition`` is true; the failure names ``what`` the test waited for."""
    deadline, pause = time.monotonic() + seconds, 0.05
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(pause)
        pause = min(pause * 1.2, MOST_PAUSE_SECONDS)


def retry_until(condition: Callable[[], Any], seconds: float = 10, pause: float = 0.1) -> Any:
    """Return the first true value of ``condition``, or its last value at the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(pause)
    return value
