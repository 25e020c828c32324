"""The syntax of queries in DuckDB's trees, and the facts that a process keeps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")


def test_the_text_of_a_tree_has_its_meaning() -> None:
    with shared("sql_engine").Engine(64) as engine:
        syntax = engine.syntax
        tree = syntax.tree("SELECT a + 1 AS b FROM input")
        assert syntax.tree(syntax.text_of(tree))["statements"][0]["node"]["select_list"]
        assert {"sum", "count_star", "median"} <= syntax.aggregates()


def test_a_text_is_rewritten_once() -> None:
    calls: list[Any] = []

    def rows(statement: str, values: list[Any]) -> list[tuple[Any, ...]]:
        calls.append(values)
        return [('{"a": 1}',)]

    syntax = shared("sql_syntax").Syntax(rows)
    assert syntax.tree("a query of this test") is not syntax.tree("a query of this test")
    assert calls == [["a query of this test"]]


def test_facts_about_long_queries_are_not_kept() -> None:
    found = iter(range(10))
    module = shared("sql_syntax")
    for query, expected in (("short, in a test", [0, 0]), ("x" * 30_001, [1, 2])):
        facts = [module.once("test", query, (), lambda: next(found)) for _ in range(2)]
        assert facts == expected


def test_the_number_of_facts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = shared("sql_syntax")
    monkeypatch.setattr(module, "MOST_KNOWN", 2)
    last = module.Last()
    for number in range(3):
        assert last.get((number,), lambda: number, lambda _: True) == number  # noqa: B023
    assert len(last._found) == 1
