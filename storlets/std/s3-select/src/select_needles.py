"""The needles of a query of CSV: of its condition, in the tree of S3's dialect."""

from __future__ import annotations

import needles
import select_syntax as tree
from needles import UNKNOWN, Needles
from select_schema import CsvSchema


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
            pattern = self._given(node.operand, node.pattern)
            return UNKNOWN if pattern is None else needles.of_pattern(pattern, self._quote)
        return UNKNOWN

    def _equal(self, value: tree.Expression, given: tree.Expression) -> Needles:
        text = self._given(value, given)
        return UNKNOWN if text is None else needles.of_text(text, self._quote)

    def _given(self, value: tree.Expression, given: tree.Expression) -> str | None:
        """A text of the query that a column is compared with; ``None``: there is none."""
        if not isinstance(value, tree.Path) or not isinstance(given, tree.Literal):
            return None
        # A column that no record has is NULL.
        is_column = self._schema.value(value).missing != "true"
        return given.value if is_column and isinstance(given.value, str) else None
