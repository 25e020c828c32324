"""Adds numbers by key.

Each line of each input is ``key<TAB>number``, or a number alone; the output has one line of this
form for each key, sorted by the bytes of the keys.  The sum of sums is the sum, so it is a merge of
``std:distributed``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from refusal import Refusal

NUMBER = re.compile(rb"[+-]?[0-9]{1,1000}")


class Sum:
    """Its memory depends on the number of different keys only."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        sums: defaultdict[bytes, int] = defaultdict(int)
        for place, source in enumerate(in_files, 1):
            for number, line in enumerate(source, 1):
                key, value = parsed(line, place, number)
                sums[key] += value
        out_files[0].set_metadata({"Content-Type": "text/plain; charset=utf-8"})
        out_files[0].write(b"".join(shown(*each) for each in sorted(sums.items())))


def parsed(line: bytes, place: int, number: int) -> tuple[bytes, int]:
    """Key and number of a line."""
    key, tab, value = line.rstrip(b"\r\n").rpartition(b"\t")
    if not NUMBER.fullmatch(value):
        raise Refusal(f"input {place}, line {number}: want key, TAB and a whole number")
    return key + tab, int(value)


def shown(key: bytes, total: int) -> bytes:
    return b"%s%d\n" % (key, total)
