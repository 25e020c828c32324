"""The grammar of expressions of S3 Select: binding powers, and calls in calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("s3-select")


def shape(text: str) -> Any:
    """The operators of an expression, and their operands."""
    tree = shared("select_syntax")
    tokens = shared("select_tokens").Tokens(text)
    grammar = shared("select_expressions")

    parts = {
        tree.Binary: lambda node: (node.sign, node.left, node.right),
        tree.Logic: lambda node: (node.word, *node.operands),
        tree.Not: lambda node: ("NOT", node.operand),
        tree.In: lambda node: ("IN", node.operand, *node.items),
        tree.Like: lambda node: ("LIKE", node.operand, node.pattern),
        tree.Between: lambda node: ("BETWEEN", node.operand, node.low, node.high),
        tree.Is: lambda node: (f"IS {node.word}", node.operand),
        tree.Call: lambda node: (node.name, *node.arguments),
    }

    def of(node: Any) -> Any:
        if isinstance(node, tree.Path):
            return ".".join(step.text for step in node.steps)
        if isinstance(node, tree.Literal):
            return node.value
        name, *operands = parts[type(node)](node)
        return (name, *map(of, operands))

    return of(grammar.Expressions(tokens, grammar.Paths(tokens)).expression())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", ("+", 1, ("*", 2, 3))),
        ("(1 + 2) * 3", ("*", ("+", 1, 2), 3)),
        ("1 - 2 - 3", ("-", ("-", 1, 2), 3)),
        ("a OR b AND c", ("OR", "a", ("AND", "b", "c"))),
        ("NOT a = 1 AND b", ("AND", ("NOT", ("=", "a", 1)), "b")),
        ("a != 'x' || 'y'", ("<>", "a", ("||", "x", "y"))),
        ("a = b < c", ("=", "a", ("<", "b", "c"))),
        ("a < b = c", ("=", ("<", "a", "b"), "c")),
        ("a = b = c", ("=", ("=", "a", "b"), "c")),
        ("a = b NOT IN (1) AND c", ("AND", ("=", "a", ("NOT", ("IN", "b", 1))), "c")),
        ("a <> b LIKE 'x' || 'y'", ("<>", "a", ("LIKE", "b", ("||", "x", "y")))),
        ("a = b NOT BETWEEN 1 AND 2", ("=", "a", ("NOT", ("BETWEEN", "b", 1, 2)))),
        ("a = b IS NOT NULL", ("NOT", ("IS NULL", ("=", "a", "b")))),
        ("LOWER(TRIM(s.a || 'x'))", ("LOWER", ("TRIM", ("||", "s.a", "x")))),
    ],
)
def test_operators_bind_as_in_sql(text: str, expected: Any) -> None:
    assert shape(text) == expected
