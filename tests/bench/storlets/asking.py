"""Reads an object as its input or by ``open``, or looks one up again and again."""

from __future__ import annotations

import json
import time
from typing import Any

from storlet import services


class Asking:
    """The storlet; ``do`` names the action. The output is in JSON."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        found = getattr(self, params["do"])(in_files[0], params)
        out_files[0].write(json.dumps(found).encode())

    def read(self, source: Any, params: dict[str, str]) -> int:
        """How many bytes the input has."""
        buffer, size = bytearray(256 * 1024), 0
        while count := source.readinto(buffer):
            size += count
        return size

    def open(self, source: Any, params: dict[str, str]) -> int:
        """How many bytes the object ``path`` has."""
        with services.open(params["path"]) as file:
            return self.read(file, params)

    def stat(self, source: Any, params: dict[str, str]) -> list[float]:
        """The milliseconds of ``count`` looks at the object ``path``."""
        taken = []
        for _ in range(int(params["count"])):
            began = time.perf_counter()
            services.stat(params["path"])
            taken.append((time.perf_counter() - began) * 1000)
        return taken
