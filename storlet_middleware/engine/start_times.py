"""The parts of the time until a worker has begun an invocation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class StartTimes:
    """Seconds; zero for a part that was not necessary.

    :param code: the fetch of code that the node lacked, or the check that it is there.
    :param sandbox: the wait for a sandbox that knows the storlet, beside the fetch.
    :param worker: from the hand-over until a worker began; a new worker loads the code.
    """

    code: float = 0.0
    sandbox: float = 0.0
    worker: float = 0.0

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> StartTimes:
        """The times in a message of an object node; an older one sends none."""
        times = message.get("start_times") or {}
        code, sandbox, worker = times.get("code"), times.get("sandbox"), times.get("worker")
        return cls(float(code or 0), float(sandbox or 0), float(worker or 0))

    @classmethod
    def sum_of(cls, several: Iterable[StartTimes]) -> StartTimes:
        """The times of storlets one after the other."""
        total = cls()
        for each in several:
            total.code += each.code
            total.sandbox += each.sandbox
            total.worker += each.worker
        return total
