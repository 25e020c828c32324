"""A logger of tests, without the imports of :mod:`.support`: processes of tests start with it."""

from __future__ import annotations

import traceback
from typing import Any


class Logger:
    """A logger that records lines and metrics."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stats: list[str] = []

    def _keep(self, text: str, *args: Any) -> None:
        self.lines.append(text % args)

    debug = info = warning = error = _keep

    def exception(self, text: str, *args: Any) -> None:
        self.lines.append(text % args + "\n" + traceback.format_exc())

    def timing(self, name: str, value: float) -> None:
        assert value >= 0
        self.stats.append(name)

    def update_stats(self, name: str, value: int) -> None:
        self.stats.append(name)

    def increment(self, name: str) -> None:
        self.stats.append(name)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)
