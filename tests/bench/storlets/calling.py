"""Calls the no-op on the object of a parameter, and writes the milliseconds of each call."""

from __future__ import annotations

import json
import time
from typing import Any

from storlet import services


class Calling:
    """The storlet."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        taken = []
        for _ in range(int(params["count"])):
            began = time.perf_counter()
            with services.call(params["storlet"], params["path"]) as result:
                while result.read(65536):
                    pass
            taken.append((time.perf_counter() - began) * 1000)
        out_files[0].write(json.dumps(taken).encode())
