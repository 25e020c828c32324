"""A check of JSON lines for what the engine's reader would lose: late keys, and digits.

The reader drops a key that the first MiB does not have, and takes a number with a point for a
``DOUBLE`` before any type is checked.  A conversion keeps each value, so both are errors here.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from late_keys import Known
from parameters import shown
from sql_check import SqlError
from sql_input import MOST_LINE_BYTES
from sql_keys import require_levels

#: Only a line with such a text can have a number that a ``DOUBLE`` does not keep.
_LONG = re.compile(rb"[0-9.]{17}|[eE]-[0-9]{3}")
#: No ``DOUBLE`` has more digits.
MOST_DIGITS = 767
_SHOWN = 40


class Checked:
    """A file with the bytes of ``source``, whose lines are checked before they are given."""

    def __init__(self, source: Any, head: bytes, types: Mapping[str, Any]) -> None:
        """
        :param head: the bytes before those of ``source``.
        :param types: the type of each column, as ``Engine.type_of`` gives it.
        :raises SqlError: a line of the head loses a value.
        """
        self._source = source
        self._known = Known(types, types, has_all=True)
        self._decimals = {
            name: str(kind) for name, kind in types.items() if str(kind).startswith("DECIMAL")
        }
        self._plain = json.JSONDecoder(parse_constant=_no_constant)
        self._exact = json.JSONDecoder(parse_constant=_no_constant, parse_float=Written)
        self._number = 0
        self._rest = b""
        self._take(head.removeprefix(BOM_UTF8))

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and none only at the end.

        :raises SqlError: a line is no object of JSON, or loses a value.
        """
        data = bytes(self._source.read(size))
        if data or self._rest:
            self._take(data or b"\n")
        return data

    def _take(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._number += 1
            self._check(line)
        if len(self._rest) > MOST_LINE_BYTES:
            raise SqlError(f"line {self._number + 1}: has more than {MOST_LINE_BYTES} bytes")

    def _check(self, line: bytes) -> None:
        require_levels(line, self._number)
        is_long = _LONG.search(line) is not None
        try:
            row = (self._exact if is_long else self._plain).decode(line.decode())
        except (ValueError, RecursionError) as error:
            if line.strip():
                raise SqlError(f"line {self._number}: is no JSON: {error}") from None
            return
        if not isinstance(row, dict):
            raise SqlError(f"line {self._number}: is no JSON object")
        self._known.require(row, self._number)
        if is_long:
            for name, value in row.items():
                self._require_kept(name, value)

    def _require_kept(self, name: str, value: Any) -> None:
        kind = self._decimals.get(name, "DOUBLE")
        todo = [value]
        while todo:
            each = todo.pop()
            if isinstance(each, Written) and not is_kept(each, is_decimal=kind != "DOUBLE"):
                raise SqlError(
                    f"line {self._number}: column {shown(name)}: {each.text[:_SHOWN]} is no {kind}"
                    " that JSON keeps: its numbers with a point are a DOUBLE; a text has all digits"
                )
            if isinstance(each, (list, dict)):
                todo += each if isinstance(each, list) else each.values()


class Written(float):
    """A number of JSON with a point or an exponent, and its text."""

    text: str

    def __new__(cls, text: str) -> Written:
        made = super().__new__(cls, text)
        made.text = text
        return made


def is_kept(number: Written, *, is_decimal: bool) -> bool:
    """Whether a ``DOUBLE`` keeps the text of a number.

    The text may have any number of digits of the ``DOUBLE``: 0.10000000000000001 is 0.1, as many
    programs write it.  A decimal is the text, so there this is another value.
    """
    digits = number.text.lower().partition("e")[0].replace(".", "").lstrip("-0")
    if not digits:
        return True
    if len(digits) > MOST_DIGITS or number in {0.0, math.inf, -math.inf}:
        return False
    if Decimal(number.text) == Decimal(float.__repr__(number)):
        return True
    rounded = f"{abs(float(number)):.{len(digits) - 1}e}".partition("e")[0].replace(".", "")
    return rounded == digits and not is_decimal


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")
