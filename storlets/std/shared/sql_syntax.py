"""The syntax of queries, in DuckDB's own trees.

A process keeps facts about queries for its next runs: many runs have the same queries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, ClassVar

from sql_check import MOST_QUERY_CHARACTERS, check, trimmed

_CALL = re.compile(r"(\w+)\(")
#: Bounds of what a process keeps: 3 MB.
MOST_KNOWN = 100
MOST_KNOWN_CHARACTERS = 30_000


class Last:
    """The last facts of a kind that a process has found."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Any] = {}

    def get(
        self, key: tuple[Any, ...], find: Callable[[], Any], is_small: Callable[[Any], bool]
    ) -> Any:
        """The fact of ``key``, which nothing changes.

        :param is_small: whether a fact is kept.
        """
        if key in self._found:
            return self._found[key]
        fact = find()
        if is_small(fact):
            if len(self._found) >= MOST_KNOWN:
                self._found.clear()
            self._found[key] = fact
        return fact


#: Facts about queries, by their kind, the query, and all else on which they depend.
_facts = Last()


def once(kind: str, query: str, given: tuple[Any, ...], find: Callable[[], Any]) -> Any:
    """A fact about a query, which nothing changes; a process keeps some for its next runs.

    :param given: all else on which it depends.
    """
    is_small = len(query) <= MOST_KNOWN_CHARACTERS and len(given) <= MOST_KNOWN
    return _facts.get((kind, query, given), find, lambda _fact: is_small)


class Syntax:
    """The syntax of queries in one engine.

    :param rows: gives the rows of a statement of ours.
    """

    #: The aggregates of DuckDB, read once in a process: that takes half of a small run.
    _aggregates: frozenset[str] = frozenset()
    #: Texts and syntax trees of queries, by the call that made them and its argument.
    _known: ClassVar = Last()

    def __init__(self, rows: Callable[..., list[tuple[Any, ...]]]) -> None:
        self._rows = rows

    def checked(self, query: str, most_characters: int = MOST_QUERY_CHARACTERS) -> str:
        """The query as it may run.

        :raises SqlError: it is not one SELECT over the table.
        """
        kept = trimmed(query, most_characters)
        serialized = self._rewritten("json_serialize_sql(?::VARCHAR)", kept)
        once("check", kept, (), lambda: check(kept, serialized))
        return kept

    def tree(self, query: str) -> Any:
        """The syntax tree of a checked query, or of one of ours."""
        return json.loads(self._rewritten("json_serialize_sql(?::VARCHAR)", query))

    def text_of(self, tree: Any) -> str:
        """The SQL of a syntax tree.

        :raises SqlError: it has a constant that the engine does not write.
        """
        return self._rewritten("json_deserialize_sql(?::JSON)", json.dumps(tree))

    def _rewritten(self, call: str, text: str) -> str:
        """The text that a function of ours makes of ``text``, and of nothing else."""
        made: str = Syntax._known.get(
            (call, text),
            lambda: str(self._rows(f"SELECT {call}", [text])[0][0]),
            lambda found: len(text) + len(found) <= MOST_KNOWN_CHARACTERS,
        )
        return made

    def aggregates(self) -> frozenset[str]:
        """The names of all aggregates, and of the macros that use one; no query adds any."""
        if not Syntax._aggregates:
            Syntax._aggregates = self._read_aggregates()
        return Syntax._aggregates

    def _read_aggregates(self) -> frozenset[str]:
        rows = self._rows(
            "SELECT function_name, function_type, macro_definition FROM duckdb_functions()"
            " WHERE function_type IN ('aggregate', 'macro')"
        )
        found = {"count_star"} | {name for name, kind, _ in rows if kind == "aggregate"}
        macros = {
            name: set(_CALL.findall(text or "")) for name, kind, text in rows if kind == "macro"
        }
        while more := {name for name, used in macros.items() if used & found} - found:
            found |= more
        return frozenset(found)
