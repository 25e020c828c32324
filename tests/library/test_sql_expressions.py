"""Expressions of a query as trees: equal ones, names of the result, and aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.library.support import LibraryStorlet, shared

PART = LibraryStorlet("sql-part")


@pytest.fixture
def expressions() -> Iterator[Any]:
    with shared("sql_engine").Engine(64) as engine:
        yield shared("sql_expressions").Expressions(engine.syntax, "SELECT 1", "t", {"a", "b"})


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("a", "A", True),
        ("a", "t.a", True),
        ("a", "a AS x", True),
        ("a", "b", False),
        ("a", "u.a", False),
    ],
)
def test_expressions_of_one_meaning_have_one_key(
    expressions: Any, one: str, other: str, are_equal: bool
) -> None:
    keys = [expressions.key(expressions.parsed(text)) for text in (one, other)]
    assert (keys[0] == keys[1]) is are_equal


def test_an_alias_is_in_the_text_and_not_in_the_plain_one(expressions: Any) -> None:
    tree = expressions.parsed("a + 1 AS more")
    assert expressions.text(tree) == f"{expressions.plain(tree)} AS more"


@pytest.mark.parametrize(("text", "has"), [("sum(a) + 1", True), ("upper(a)", False), ("a", False)])
def test_an_aggregate_is_found_in_an_expression(expressions: Any, text: str, has: bool) -> None:
    assert expressions.has_aggregate(expressions.parsed(text)) is has


def test_names_of_the_result_are_replaced_unless_a_column_has_the_name(expressions: Any) -> None:
    aliases = {"more": expressions.parsed("a + 1"), "b": expressions.parsed("a + 2")}
    replaced = expressions.without_aliases(expressions.parsed("more * 2"), aliases, is_clear=True)
    assert expressions.key(replaced) == expressions.key(expressions.parsed("(a + 1) * 2"))
    column = expressions.parsed("b")
    assert expressions.without_aliases(column, aliases, is_clear=True) == column
    with pytest.raises(shared("sql_check").SqlError, match="is a column of the object and of"):
        expressions.without_aliases(column, aliases, is_clear=False)


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("'7'", None), ("7.5", None), ("a", None)])
def test_a_whole_number_is_a_constant(expressions: Any, text: str, value: int | None) -> None:
    assert shared("sql_expressions").whole(expressions.parsed(text)) == value
