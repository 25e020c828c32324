"""A query may be one SELECT over the table ``input``: the check of DuckDB's own syntax tree.

This is the first of two walls.  It gives errors that name the fault, before a byte of the object is
read.  The second one is the closed engine (``sql_engine``), which would refuse the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from parameters import shown
from refusal import Refusal

TABLE = "input"
#: Table functions that read nothing; all others are refused.
TABLE_FUNCTIONS = ("generate_series", "range", "unnest")
#: Functions of rows that reach out of the query, or run SQL that is in a text.
REFUSED_FUNCTIONS = frozenset(
    "currval current_setting getenv getvariable json_execute_serialized_sql json_serialize_plan"
    " json_serialize_sql nextval query query_table write_log".split()
)
#: Names of the engine's own views, which no table of a query may have.
ENGINE_NAMES = ("duckdb_", "pg_", "pragma_", "sqlite_")
#: Parts of a query that stand for columns without their names.
_UNNAMED = ("STAR", "POSITIONAL_REFERENCE", "PIVOT")
MOST_QUERY_CHARACTERS = 100_000
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_END = re.compile(r"[;\s]+\Z")
_ONE = "want one SELECT (or WITH ... SELECT); statements that change something are refused"


class SqlError(Refusal):
    """The query is wrong, or the object does not fit it."""


def folded_name(name: str) -> str:
    """The name as the engine compares it: only ASCII letters have two cases."""
    return name.translate(_LOWER)


def trimmed(query: str, most_characters: int = MOST_QUERY_CHARACTERS) -> str:
    """The query without the semicolon at its end.

    :raises SqlError: it is empty or too long.
    """
    kept = _END.sub("", query)
    if not kept:
        raise SqlError(f"query: is empty: {_ONE}")
    if len(kept) > most_characters:
        raise SqlError(f"query: has more than {most_characters} characters")
    return kept


def check(query: str, serialized: str) -> None:
    """Check the tree that ``json_serialize_sql`` gives for ``query``.

    :raises SqlError: with the place of the first fault.
    """
    try:
        tree = json.loads(serialized)
        if tree.get("error"):
            raise SqlError(_refusal(query, tree))
        statements = tree["statements"]
        if len(statements) != 1:
            raise SqlError(f"query: has {len(statements)} statements: {_ONE}")
        faults = sorted(_faults(statements[0]))
    except RecursionError:
        raise SqlError("query: is nested too deeply") from None
    if faults:
        at, fault = faults[0]
        raise SqlError(f"query: {place(query, at)}{fault}")


def place(query: str, at: int | None) -> str:
    """``line 1, column 15: `` for an offset in the query, if it is one."""
    if at is None or not 0 <= at <= len(query.encode()):
        return ""
    before = query.encode()[:at].decode(errors="replace")
    line = before.count("\n") + 1
    return f"line {line}, column {len(before) - before.rfind(chr(10))}: "


def _refusal(query: str, tree: dict[str, Any]) -> str:
    """The text for a query that has no tree."""
    text = " ".join(str(tree.get("error_message", "")).split())
    if tree.get("error_type") == "parser":
        at = str(tree.get("position", ""))
        return f"query: {place(query, int(at) if at.isdigit() else None)}{text}"
    return f"query: {_ONE}"


def _faults(tree: Any) -> Iterator[tuple[int, str]]:
    """Each use of anything but the table, with its offset."""
    nodes = list(nodes_of(tree))
    known = {TABLE} | {
        str(row["key"]).lower()
        for node in nodes
        if isinstance(node.get("cte_map"), dict)
        for row in node["cte_map"].get("map", ())
    }
    for name in sorted(known):
        if name.startswith(ENGINE_NAMES):
            yield 1 << 32, f"{shown(name)}: a table of the query cannot have a name of the engine"
    for node in nodes:
        fault = _fault(node, known)
        if fault:
            at = node.get("query_location")
            yield (at if isinstance(at, int) and at < 1 << 32 else 1 << 32), fault


def _fault(node: dict[str, Any], known: set[str]) -> str:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        names = [node.get(key) for key in ("catalog_name", "schema_name", "table_name")]
        name = ".".join(str(each) for each in names if each)
        if any(names[:2]) or str(names[2]).lower() not in known:
            return f"{shown(name)}: there is no such table: the object is the table {TABLE}"
    elif kind == "TABLE_FUNCTION":
        name = str((node.get("function") or {}).get("function_name", "?"))
        if name.lower() not in TABLE_FUNCTIONS:
            return (
                f"{shown(name)}: is refused: a query reads the table {TABLE} only; the functions"
                f" after FROM are {', '.join(TABLE_FUNCTIONS)}"
            )
    elif kind == "SHOW_REF":
        return f"DESCRIBE, SHOW and SUMMARIZE are refused: {_ONE}"
    elif str(node.get("function_name", "")).lower() in REFUSED_FUNCTIONS:
        return f"{shown(node['function_name'])}: is refused: it reaches out of the query"
    return ""


def names_in(tree: Any) -> frozenset[str] | None:
    """Names, in lower case, that columns of the table have if a query uses them, and other ones.

    ``None``: it may use all columns, without their names.
    """
    found: set[str] = set()
    tables, columns = {TABLE}, set()
    for node in nodes_of(tree):
        is_by_place = node.get("type") in _UNNAMED or node.get("ref_type") == "NATURAL"
        if is_by_place or node.get("column_name_alias"):
            return None
        if "sample" in node:
            tables.add(folded_name(str(node.get("alias"))))
        names = node.get("column_names")
        if isinstance(names, list):
            columns.add(folded_name(str(names[-1])))
        for value in node.values():
            texts = value if isinstance(value, list) else [value]
            found.update(folded_name(each) for each in texts if isinstance(each, str))
    # The name of a table is a value with all of its columns.
    return None if tables & columns else frozenset(found)


def nodes_of(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of the tree; it may be deeper than Python's stack."""
    todo = [tree]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield value
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
