"""A dependency module: code that the storlet calls."""

from __future__ import annotations


class Helper:
    def __str__(self) -> str:
        return "helped"
