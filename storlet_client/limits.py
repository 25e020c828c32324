"""Limits that storlets declare, as numbers: bytes, seconds, CPUs and counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Union

from storlet_client.bundle import manifest

#: A limit: a number, or the text of one that has another form than the schema's.
Amount = Union[int, float, str]

_PARTS = re.compile(r"([0-9.]+) ?([a-z]*)", re.IGNORECASE | re.ASCII)
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def numbers(declared: Mapping[str, str]) -> dict[str, Amount]:
    """Each limit as a number; ``declared`` has texts such as ``256M`` and ``2m``, by name."""
    return {name: _number(name, text) for name, text in declared.items()}


def _number(name: str, text: str) -> Amount:
    schema = manifest.schema()
    known = schema["properties"]["limits"]["properties"]
    kind = known[name]["$ref"].rpartition("/")[2] if name in known else ""
    match = _PARTS.fullmatch(text)
    if match is None or not kind or not re.fullmatch(schema["$defs"][kind]["pattern"], text):
        return text
    value, unit = float(match[1]), match[2].lower()
    if kind == "size":
        return int(value * _BYTES[unit.rstrip("b").rstrip("i")])
    if kind == "time":
        value = round(value * _SECONDS[unit], 6)
    return int(value) if value == int(value) else value
