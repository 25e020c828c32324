"""The needles of a query of CSV: of its condition, in the tree of S3's dialect."""

from __future__ import annotations

import needles
import select_syntax as tree
from needles import UNKNOWN, Needles
from select_schema import CsvSchema

#: The name of the first column in the engine.
_FIRST = "c1"


class Conditions:
    """The needles of conditions over the columns of a CSV, which are texts."""

    def __init__(self, schema: CsvSchema, quote: str) -> None:
        self._schema = schema
        self._quote = quote

    def needles(self, node: tree.Expression | None) -> Needles:
        """The needles of an expression that is true.

        :raises SelectError: it names a column that is not there.
        """
        if isinstance(node, tree.Logic):
            found = map(self.needles, node.operands)
            return needles.of_all(found) if node.word == "AND" else needles.of_any(found)
        if isinstance(node, tree.Binary) and node.sign == "=":
            return self._equal(node.left, node.right) or self._equal(node.right, node.left)
        if isinstance(node, tree.In):
            return needles.of_any(self._equal(node.operand, item) for item in node.items)
        if isinstance(node, tree.Like) and node.escape is None:
            pattern = _text_of(node.pattern)
            column = self._column_of(node.operand)
            if column and pattern is not None:
                return needles.of_pattern(pattern, self._quote, is_start=column != _FIRST)
        return UNKNOWN

    def _equal(self, value: tree.Expression, given: tree.Expression) -> Needles:
        text, column = _text_of(given), self._column_of(value)
        if text is None or not column:
            return UNKNOWN
        return needles.of_text(text, self._quote, is_start=column != _FIRST)

    def _column_of(self, node: tree.Expression) -> str:
        """The engine's column that an expression is; empty: it is none."""
        if not isinstance(node, tree.Path):
            return ""
        found = self._schema.value(node)
        # A column that no record has is NULL.
        return "" if found.missing == "true" else found.sql


def _text_of(node: tree.Expression) -> str | None:
    """The text that an expression is."""
    is_text = isinstance(node, tree.Literal) and isinstance(node.value, str)
    return str(node.value) if is_text else None
