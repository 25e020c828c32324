"""The needles of a query: of the condition on the object's own table, in the engine's syntax tree.

Only comparisons of texts count.  A value that does not fit the type of another column is an error,
and would be none if its line were dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import needles
from needles import UNKNOWN, Needles
from sql_check import TABLE, folded_name, nodes_of

_TEXT = "VARCHAR"
_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
#: Functions whose first argument starts with the second one, or has it in it.
_STARTING = ("starts_with", "^@", "prefix")
_CONTAINING = ("contains", "ends_with", "suffix")
_LIKE = "~~"
_LIMITS = ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER")


def of_query(tree: Any, columns: Mapping[str, str], quote: str) -> Needles:
    """The needles of all lines that a query needs.

    :param tree: the syntax tree of the checked query.
    :param columns: the type in SQL of each column of the object.
    """
    nodes = list(nodes_of(tree))
    tables = [node for node in nodes if _is_object(node)]
    if len(tables) != 1 or any(map(_is_hiding, nodes)) or any(map(_ends_early, nodes)):
        return UNKNOWN
    table = tables[0]
    for node in nodes:
        # A sample is one of all rows, and a list of names gives columns other ones.
        if node.get("from_table") is table and not node.get("sample"):
            if table.get("sample") or table.get("column_name_alias") or not node["where_clause"]:
                return UNKNOWN
            alias = str(table.get("alias") or TABLE)
            try:
                return _Condition(columns, alias, quote).needles(node["where_clause"])
            except RecursionError:
                return UNKNOWN
    return UNKNOWN


def _is_object(node: Mapping[str, Any]) -> bool:
    return node.get("type") == "BASE_TABLE" and str(node.get("table_name")).lower() == TABLE


def _is_hiding(node: Mapping[str, Any]) -> bool:
    """Whether a table of the query has the name of the object."""
    tables = node.get("cte_map")
    rows = tables.get("map", ()) if isinstance(tables, dict) else ()
    return any(str(row["key"]).lower() == TABLE for row in rows)


def _ends_early(node: Mapping[str, Any]) -> bool:
    """Whether the first rows may be enough: the engine takes lines only when it has many."""
    modifiers = node.get("modifiers")
    kinds = [each.get("type") for each in modifiers] if isinstance(modifiers, list) else []
    return any(kind in _LIMITS for kind in kinds) and "ORDER_MODIFIER" not in kinds


class _Condition:
    def __init__(self, columns: Mapping[str, str], alias: str, quote: str) -> None:
        self._first = folded_name(next(iter(columns), ""))
        self._types: dict[str, list[str]] = {}
        for name, kind in columns.items():
            self._types.setdefault(folded_name(name), []).append(kind)
        self._alias = folded_name(alias)
        self._quote = quote

    def needles(self, node: Mapping[str, Any]) -> Needles:
        """The needles of an expression that is true."""
        kind, children = node.get("type"), node.get("children") or []
        if kind == "CONJUNCTION_AND":
            return needles.of_all(map(self.needles, children))
        if kind == "CONJUNCTION_OR":
            return needles.of_any(map(self.needles, children))
        if kind in _EQUAL:
            sides = node["left"], node["right"]
            return self._starting(*sides) or self._starting(*reversed(sides))
        if kind == "COMPARE_IN":
            return needles.of_any(self._starting(children[0], each) for each in children[1:])
        if kind == "FUNCTION" and len(children) == 2:  # noqa: PLR2004 - a column and a text
            return self._called(str(node["function_name"]).lower(), *children)
        return UNKNOWN

    def _called(self, name: str, value: Mapping[str, Any], given: Mapping[str, Any]) -> Needles:
        if name in _STARTING:
            return self._starting(value, given)
        text, column = _text_of(given), self._column_of(value)
        if text is None or not column:
            return UNKNOWN
        if name == _LIKE:
            return needles.of_pattern(text, self._quote, is_start=column != self._first)
        return needles.of_text(text, self._quote) if name in _CONTAINING else UNKNOWN

    def _starting(self, value: Mapping[str, Any], given: Mapping[str, Any]) -> Needles:
        text, column = _text_of(given), self._column_of(value)
        if text is None or not column:
            return UNKNOWN
        return needles.of_text(text, self._quote, is_start=column != self._first)

    def _column_of(self, node: Mapping[str, Any]) -> str:
        """The column of texts that an expression is; empty: it is none."""
        if node.get("class") != "COLUMN_REF":
            return ""
        *tables, name = (folded_name(str(each)) for each in node["column_names"])
        # A column may have parts, and the name of the table.
        if tables and (tables != [self._alias] or self._alias in self._types):
            return ""
        return name if self._types.get(name) == [_TEXT] else ""


def _text_of(node: Mapping[str, Any]) -> str | None:
    """The text that an expression is."""
    value = node.get("value") if node.get("class") == "CONSTANT" else None
    if not isinstance(value, dict) or value["type"]["id"] != _TEXT or value["is_null"]:
        return None
    return str(value["value"])
