"""Values of JSON as they were written: numbers are texts, and no object has a key twice."""

from __future__ import annotations

import json
from typing import Any


class Number(str):
    """The text of a number, which differs from a string."""

    __slots__ = ()


class RepeatedKey(ValueError):
    """An object has a key twice."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of ``pairs``, for the decoder; the last of two equal keys would silently win.

    :raises RepeatedKey: there are two equal keys.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RepeatedKey("a key is there twice")
    return found


DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=unique
)
