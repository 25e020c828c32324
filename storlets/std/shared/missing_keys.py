"""Keys of JSON lines that a query over many objects names, and that one of them lacks.

Such a key is ``NULL`` in each row of the object, as it is in a line without it.  Its type is that
of the parameter ``columns``, or a text with ``types=text``.  Without one the type is not known
here, so the query may have the key only where a ``NULL`` of each type gives the same: alone, in a
``CAST``, in a comparison, or in an aggregate that is merged.  All else could differ between
objects, and is an error.  ``std:sql-merge`` refuses a key that no object has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from parameters import shown
from sql_check import SqlError, folded_name, nodes_of, place
from sql_engine import Engine, identifier
from sql_input import Format
from sql_partial import nearest
from sql_split import MERGED, Tree, table_name

_COMPARISONS = frozenset(
    "COMPARE_EQUAL COMPARE_NOTEQUAL COMPARE_LESSTHAN COMPARE_GREATERTHAN COMPARE_LESSTHANOREQUALTO"
    " COMPARE_GREATERTHANOREQUALTO".split()
)
#: Operators whose first value may be a ``NULL`` of any type.
_TESTS = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "COMPARE_IN", "COMPARE_NOT_IN")
_TEXT = "VARCHAR"


def found(engine: Engine, query: str, names: Sequence[str], form: Format) -> dict[str, str]:
    """The type in SQL of each key that the object lacks; empty: it is not known.

    :param query: a checked one, which need not be valid for the object.
    :param names: the columns of the object.
    :raises SqlError: the type of a key counts, and is not known.
    """
    missing = {name: kind for name, kind in form.columns.items() if name not in names}
    node = engine.syntax.tree(query)["statements"][0]["node"]
    try:
        engine.columns(query)
    except SqlError:
        given = {folded_name(name) for name in missing}
        kind = _TEXT if form.is_text else ""
        unknown = _unknown(engine, node, names)
        missing |= {name: kind for name in unknown if folded_name(name) not in given}
    untyped = {folded_name(name) for name, kind in missing.items() if not kind}
    for reference in _uses(node, untyped, names) if untyped else ():
        name = str(_path(reference, node, names)[0])
        near = nearest(name, names)
        raise SqlError(
            f"query: {place(query, reference.get('query_location'))}the object has no key"
            f" {shown(name)}{near and f' (the nearest one is {shown(near)})'}, so its type is not"
            " known here: write a CAST of it, or give it a type by columns"
        )
    return missing


def _path(reference: Tree, node: Tree, names: Sequence[str]) -> list[str]:
    """The key and the keys within it that ``a.b.c`` names."""
    path = [str(name) for name in reference["column_names"]]
    table = table_name(node)
    is_column = any(folded_name(name) == table for name in names)
    return path[1:] if len(path) > 1 and folded_name(path[0]) == table and not is_column else path


def _unknown(engine: Engine, node: Tree, names: Sequence[str]) -> list[str]:
    """The names of the query that neither the object nor the query itself has."""
    table = node.get("from_table") or {}
    if table.get("type") != "BASE_TABLE" or any(
        each.get("class") == "SUBQUERY" for each in nodes_of(node)
    ):
        return []  # such a query is refused with its own reason
    own = {folded_name(name) for name in (*names, *_lambda_names(node), table_name(node))}
    found: dict[str, str] = {}
    for part, aliases in _parts(node):
        for each in nodes_of(part):
            if each.get("class") == "COLUMN_REF":
                path = _path(each, node, names)
                folded = folded_name(path[0])
                is_alias = len(each["column_names"]) == 1 and folded in aliases
                if folded not in own and not is_alias:
                    found.setdefault(folded, path[0])
    return sorted(name for name in found.values() if not _has_value(engine, name))


def _parts(node: Tree) -> Iterator[tuple[Any, Collection[str]]]:
    """The parts of a query, each with the names of the result that it may use."""
    seen: set[str] = set()
    for item in node["select_list"]:
        yield item, seen
        if item["alias"]:
            seen.add(folded_name(str(item["alias"])))
    yield [value for key, value in node.items() if key != "select_list"], seen


def _lambda_names(node: Tree) -> Iterator[str]:
    for each in nodes_of(node):
        if each.get("class") == "LAMBDA":
            for inner in nodes_of(each.get("lhs")):
                yield from map(str, inner.get("column_names", ()))


def _has_value(engine: Engine, name: str) -> bool:
    """Whether the name needs no column, as ``current_date``."""
    try:
        engine.columns(f"SELECT {identifier(name)}")
    except SqlError:
        return False
    return True


def _uses(node: Tree, untyped: Collection[str], names: Sequence[str]) -> Iterator[Tree]:
    """The references to keys without a type, where the type counts."""
    keys, columns = set(untyped), {folded_name(name) for name in names}
    for item in node["select_list"]:
        if item["class"] == "COLUMN_REF" and folded_name(_path(item, node, names)[0]) in keys:
            keys |= {folded_name(str(item["alias"]))} - columns - {""}
    todo: list[tuple[Any, bool]] = [(node, False)]
    while todo:
        part, is_free = todo.pop()
        if isinstance(part, list):
            todo += [(each, False) for each in part]
        elif isinstance(part, dict) and part.get("class") == "COLUMN_REF":
            path = _path(part, node, names)
            if folded_name(path[0]) in keys and not (is_free and len(path) == 1):
                yield part
        elif isinstance(part, dict):
            free = {id(each) for each in _free(part)}
            for value in part.values():
                values = value if isinstance(value, list) else [value]
                todo += [(each, id(each) in free) for each in values]


def _free(node: Tree) -> list[Any]:
    """The parts of an expression, or of a query, that may be a ``NULL`` of any type."""
    kind, of = node.get("class"), node.get("type")
    found: list[Any] = []
    if kind == "CAST":
        found = [node["child"]]
    elif kind == "COMPARISON" and of in _COMPARISONS:
        found = [node["left"], node["right"]]
    elif kind == "BETWEEN":
        found = [node["input"]]
    elif kind == "OPERATOR" and of in _TESTS:
        found = node["children"][:1]
    elif kind == "FUNCTION" and node["function_name"] in MERGED:
        found = node["children"]
    elif of == "SELECT_NODE":
        found = [*node["select_list"], *node["group_expressions"]]
    elif "null_order" in node:
        found = [node["expression"]]
    return found
