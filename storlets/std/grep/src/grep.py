"""Keeps or counts the lines that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

FLUSH_BYTES = 64 * 1024
#: ``storlet run`` and the cluster accept the same words.
TRUE = ("true", "1", "yes", "on")


class Grep:
    """Searches in bytes, so that any encoding of the text is preserved."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        expression = compiled(params)
        is_wanted = not is_true(params, "invert")
        out_files[0].set_metadata({"Content-Type": "text/plain; charset=utf-8"})
        lines = (
            line
            for line in in_files[0]
            if (expression.search(line.rstrip(b"\r\n")) is not None) is is_wanted
        )
        chosen = islice(lines, int(params["max-count"]) or None)
        if is_true(params, "count"):
            out_files[0].write(b"%d\n" % sum(1 for _ in chosen))
            return
        for block in blocks(chosen):
            out_files[0].write(block)


def compiled(params: dict[str, str]) -> re.Pattern[bytes]:
    """The parameters as one expression."""
    pattern = params["pattern"].encode()
    if is_true(params, "fixed"):
        pattern = re.escape(pattern)
    return re.compile(pattern, re.IGNORECASE if is_true(params, "ignore-case") else 0)


def is_true(params: dict[str, str], name: str) -> bool:
    return params[name].lower() in TRUE


def blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in blocks of about 64 KiB: a write for each line would dominate the cost.

    A last line without an end gets one, so that outputs of several objects can be concatenated.
    """
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        gathered.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
        if size >= FLUSH_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)
