"""Expressions of a query as trees: their text, their meaning, and the names in them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection
from typing import Any

from parameters import shown
from sql_check import SqlError, folded_name, nodes_of, place
from sql_syntax import Syntax

Tree = dict[str, Any]


def refusal(query: str, text: str, node: Tree | None = None) -> SqlError:
    """The error of a query that cannot be split, at ``node``."""
    at = (node or {}).get("query_location")
    where = place(query, at) if isinstance(at, int) else ""
    return SqlError(f"query: {where}{text}")


class Expressions:
    """The expressions of one query.

    :ivar aggregates: the names of all aggregates.
    """

    def __init__(self, syntax: Syntax, query: str, table: str, names: Collection[str]) -> None:
        """
        :param table: the name of the table in the query, in lower case.
        :param names: those of the columns of the object, in lower case.
        """
        self._syntax = syntax
        self._query = query
        self._table = table
        self._names = names
        self.aggregates = syntax.aggregates()

    def refused(self, text: str, node: Tree | None = None) -> SqlError:
        """The error of the query at ``node``."""
        return refusal(self._query, text, node)

    def text(self, expression: Tree) -> str:
        """An expression in SQL, with its alias."""
        statement = copy.deepcopy(self._syntax.tree("SELECT 1"))
        statement["statements"][0]["node"]["select_list"] = [changed(expression, self._with_type)]
        return self._syntax.text_of(statement).removeprefix("SELECT ")

    def plain(self, expression: Tree) -> str:
        """An expression in SQL."""
        return self.text({**expression, "alias": ""})

    def _with_type(self, node: Tree) -> Tree | None:
        """A constant such as ``1e3`` with its type: the engine writes it as the decimal 1000.0."""
        if node.get("class") != "CONSTANT" or node["value"]["type"]["id"] != "DOUBLE":
            return None
        return self.parsed(f"CAST('{node['value']['value']!r}' AS DOUBLE)")

    def parsed(self, text: str) -> Tree:
        """The tree of an expression of ours."""
        statement = self._syntax.tree(f"SELECT {text}")["statements"][0]
        found: Tree = statement["node"]["select_list"][0]
        return found

    def key(self, expression: Tree) -> str:
        """Equal for expressions that have one meaning."""

        def simple(node: Any) -> Any:
            if isinstance(node, list):
                return [simple(each) for each in node]
            if not isinstance(node, dict):
                return node
            kept = {key: simple(each) for key, each in node.items() if key != "query_location"}
            if node.get("class") == "COLUMN_REF":
                names = [folded_name(str(name)) for name in node["column_names"]]
                if len(names) > 1 and names[0] == self._table and names[0] not in self._names:
                    del names[0]
                kept["column_names"] = names
            return kept

        return json.dumps(simple({**expression, "alias": ""}), sort_keys=True)

    def has_aggregate(self, expression: Any) -> bool:
        """Whether an aggregate is in the tree."""
        return any(map(self._is_aggregate, nodes_of(expression)))

    def _is_aggregate(self, node: Tree) -> bool:
        return node.get("class") == "FUNCTION" and str(node["function_name"]) in self.aggregates

    def without_aliases(
        self, expression: Tree, aliases: dict[str, Tree], *, is_clear: bool
    ) -> Tree:
        """The expression with the expressions of the result that it names.

        :param is_clear: a column of the object comes before a name of the result, as in ``WHERE``;
            else such a name is refused.
        """

        def replaced(node: Tree) -> Tree | None:
            if not is_clear and self._is_aggregate(node):
                # The values of an aggregate are those of rows, which have no result yet.
                return self.without_aliases(node, aliases, is_clear=True)
            if node.get("class") != "COLUMN_REF" or len(node["column_names"]) != 1:
                return None
            name = str(node["column_names"][0])
            found = aliases.get(folded_name(name))
            if found is None or self.key(found) == self.key(node):
                return None
            if folded_name(name) in self._names:
                if is_clear:
                    return None
                raise self.refused(
                    f"{shown(name)} is a column of the object and of the result: give the one of"
                    " the result another name",
                    node,
                )
            return copy.deepcopy(found)

        return changed(expression, replaced)


def whole(node: Tree) -> int | None:
    """The value of a constant that is a whole number; ``None`` for anything else."""
    if node["class"] != "CONSTANT" or node["value"]["type"]["id"] not in ("INTEGER", "BIGINT"):
        return None
    value: int | None = node["value"].get("value")
    return value


def changed(node: Any, replaced: Callable[[Tree], Tree | None]) -> Any:
    """A copy of the tree; ``replaced`` gives a new node, which gets the alias, or ``None``."""
    if isinstance(node, list):
        return [changed(each, replaced) for each in node]
    if not isinstance(node, dict):
        return node
    found = replaced(node)
    if found is not None:
        # Within a STRUCT it is the key.
        return {**found, "alias": node["alias"]}
    return {key: changed(each, replaced) for key, each in node.items()}
