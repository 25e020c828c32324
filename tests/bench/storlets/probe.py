"""The no-op of ``identity.py`` with probes.

Reports when it began, and four times of the previous run: start, metadata sent, first input, end.

Metadata is sent before the first byte, so no run can report its own end: the next run of the same
worker does.
"""

from __future__ import annotations

import time
from typing import Any


class Probe:
    """The storlet."""

    #: Times of the previous run in this process, in nanoseconds of the monotonic clock.
    before = ""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        began = time.monotonic_ns()
        source, target = in_files[0], out_files[0]
        target.set_metadata({**source.get_metadata(), "probe": f"{began} {Probe.before}"})
        said = time.monotonic_ns()
        buffer = bytearray(256 * 1024)
        view = memoryview(buffer)
        count = source.readinto(buffer)
        got = time.monotonic_ns()
        while count:
            target.write(view[:count])
            count = source.readinto(buffer)
        Probe.before = f"{began} {said} {got} {time.monotonic_ns()}"
