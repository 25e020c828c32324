"""Copies the object, and takes time: by waiting, and with the CPU.

It stands for a storlet of a known cost in tests and measurements.
"""

from __future__ import annotations

import time
from typing import Any

BLOCK_BYTES = 256 * 1024
MIB = 1 << 20


class Delay:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        latency, cpu = int(params["latency-ms"]) / 1000, int(params["cpu-ms"]) / 1000
        target.set_metadata(source.get_metadata())
        is_per_run = params["per"] == "run"
        if is_per_run:
            take(latency, cpu)
        while block := source.read(BLOCK_BYTES):
            if not is_per_run:
                share = len(block) / MIB
                take(latency * share, cpu * share)
            target.write(block)


def take(latency: float, cpu: float) -> None:
    """Wait for ``latency`` seconds, and use ``cpu`` seconds of CPU time."""
    if latency:
        time.sleep(latency)
    end = time.thread_time() + cpu
    while cpu and time.thread_time() < end:
        sum(range(1000))
