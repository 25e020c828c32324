"""The keys of a sample of JSON lines: no two of them may be one name in SQL."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from typing import Any

from parameters import shown
from sql_check import SqlError, folded_name

#: The inference of types uses the stack of the process for each level.
MOST_LEVELS = 500
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]')


class Keys:
    """The keys of the sample.

    :ivar names: the top level, in the order of their first lines.
    :ivar fault: the first line that is no object of JSON, if there is one.
    """

    def __init__(self, sample: bytes, is_text: bool) -> None:
        """Read it; with ``is_text`` only the top level has names.

        :raises SqlError: a key is empty, or differs from another one only in case, or the sample
            is too deep.
        """
        self.names: dict[str, None] = {}
        self.fault = ""
        self._is_text = is_text
        root: dict[str, Any] = {}
        # One for all lines: ``json.loads`` would make one for each.
        decoder = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=self._no_constant)
        for number, line in enumerate(sample.removeprefix(BOM_UTF8).split(b"\n"), 1):
            self._line = number
            require_levels(line, number)
            try:
                text = line.decode(json.detect_encoding(line), "surrogatepass")
                value = decoder.decode(text)
            except (ValueError, RecursionError) as error:
                if isinstance(error, SqlError):
                    raise
                if line.strip():
                    self.fault = self.fault or f"line {number}: is no JSON: {error}"
                continue
            if not isinstance(value, _Pairs):
                self.fault = self.fault or f"line {number}: is no JSON object"
            else:
                self.names |= {key: None for key, _ in value}
                self._add(root, value)

    def _no_constant(self, text: str) -> None:
        raise SqlError(f"line {self._line}: {text} is no JSON")

    def _add(self, root: dict[str, Any], value: Any) -> None:
        todo = [(root, value)]
        while todo:
            node, value = todo.pop()
            if isinstance(value, _Pairs):
                here = set()
                for key, each in value:
                    folded = folded_name(key)
                    known, child = node.setdefault(folded, (key, {}))
                    if not key or known != key or folded in here:
                        raise SqlError(self._unclear(key, known))
                    here.add(folded)
                    if isinstance(each, list) and not self._is_text:
                        todo.append((child, each))
            elif isinstance(value, list):
                todo += [(node, each) for each in value if isinstance(each, list)]

    def _unclear(self, key: str, known: str) -> str:
        hint = "" if self._is_text else " (types=text allows it below the top level)"
        if not key:
            return f"line {self._line}: an empty key is no name of a column{hint}"
        return (
            f"line {self._line}: the keys {shown(known)} and {shown(key)} are one name in SQL{hint}"
        )


def require_levels(line: bytes, number: int) -> None:
    """Raise :class:`SqlError` for a line with more than ``MOST_LEVELS`` levels."""
    if line.count(b"[") + line.count(b"{") <= MOST_LEVELS:
        return
    level = 0
    for token in _TOKEN.findall(line):
        level += token in (b"[", b"{")
        level -= token in (b"]", b"}")
        if level > MOST_LEVELS:
            raise SqlError(f"line {number}: has more than {MOST_LEVELS} levels of JSON")


class _Pairs(list[tuple[str, Any]]):
    """An object with all its keys."""
