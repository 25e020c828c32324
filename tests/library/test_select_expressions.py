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

    def of(node: Any) -> Any:
        if isinstance(node, tree.Binary):
            return (node.sign, of(node.left), of(node.right))
        if isinstance(node, tree.Logic):
            return (node.word, *map(of, node.operands))
        if isinstance(node, tree.Not):
            return ("NOT", of(node.operand))
        if isinstance(node, tree.Call):
            return (node.name, *map(of, node.arguments))
        if isinstance(node, tree.Path):
            return ".".join(step.text for step in node.steps)
        return node.value

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
        ("LOWER(TRIM(s.a || 'x'))", ("LOWER", ("TRIM", ("||", "s.a", "x")))),
    ],
)
def test_operators_bind_as_in_sql(text: str, expected: Any) -> None:
    assert shape(text) == expected
