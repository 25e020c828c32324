"""Where the values of a record of Parquet are, and their types.

Types are those of the file.  A value that the dialect has no type for is never changed to fit one:
it is a text with all of its digits, or an error.  Columns have the names ``c1``, ``c2`` and so on
in the engine, which would change a name that differs from another one only in case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import select_syntax as tree
from engine_file import PATH
from parquet_object import TOO_WIDE
from select_errors import SelectError, quoted, raised
from select_request import Request
from select_schema import TABLE, key_of
from select_values import Kind, Value, shown_json, shown_text
from sql_engine import Engine

MOST_COLUMNS = 10_000
_ROW_NUMBER = "file_row_number"
#: Kinds of the engine's types, and the type that the value has in a query; empty: its own one.
_SCALARS = {
    "bigint": (Kind.INT, ""),
    "boolean": (Kind.BOOL, ""),
    "date": (Kind.TIME, "TIMESTAMP"),
    "decimal": (Kind.DECIMAL, ""),
    "double": (Kind.FLOAT, ""),
    "enum": (Kind.TEXT, "VARCHAR"),
    # It keeps its type, so that its text has its own digits and not those of a DOUBLE.
    "float": (Kind.FLOAT, ""),
    "integer": (Kind.INT, "BIGINT"),
    "smallint": (Kind.INT, "BIGINT"),
    "time": (Kind.TEXT, "VARCHAR"),
    "time with time zone": (Kind.TEXT, "VARCHAR"),
    "time_ns": (Kind.TEXT, "VARCHAR"),
    "timestamp": (Kind.TIME, ""),
    "timestamp with time zone": (Kind.TIME, "TIMESTAMP"),
    "timestamp_ms": (Kind.TIME, "TIMESTAMP"),
    "timestamp_s": (Kind.TIME, "TIMESTAMP"),
    "tinyint": (Kind.INT, "BIGINT"),
    "ubigint": (Kind.INT, "HUGEINT"),
    "uinteger": (Kind.INT, "BIGINT"),
    "usmallint": (Kind.INT, "BIGINT"),
    "utinyint": (Kind.INT, "BIGINT"),
    "uuid": (Kind.TEXT, "VARCHAR"),
    "varchar": (Kind.TEXT, "VARCHAR"),
}
_LISTS = ("list", "array")


@dataclass(frozen=True)
class Column:
    """A column of the file.

    :ivar type: the engine's.
    :ivar is_exact: whether the engine reads all of its values as they are.
    """

    name: str
    type: Any
    is_exact: bool = True


@dataclass
class ParquetSchema:
    """Columns by name.

    :ivar alias: the name of a record in the query.
    """

    columns: Sequence[Column]
    alias: str

    def value(self, path: tree.Path) -> Value:
        steps = path.steps
        first = steps[0]
        if len(steps) > 1 and isinstance(first, tree.Name) and first.fits(self.alias):
            steps = steps[1:]
        if not isinstance(steps[0], tree.Name):
            raise SelectError("ParseInvalidPathComponent", "want the name of a column first")
        number = self._number(steps[0])
        sql, kind, missing = f"c{number}", self._type(number), ""
        for step in steps[1:]:
            sql, kind, missing = _part(sql, kind, step)
        return _value(sql, kind, missing)

    def _number(self, name: tree.Name) -> int:
        found = [number for number, each in enumerate(self.columns, 1) if name.fits(each.name)]
        if not found:
            raise SelectError(
                "EvaluatorBindingDoesNotExist", f"{name.text}: there is no such column"
            )
        if len(found) > 1:
            raise SelectError("AmbiguousFieldName", f"{name.text}: {len(found)} columns have it")
        return found[0]

    def _type(self, number: int) -> Any:
        column = self.columns[number - 1]
        if not column.is_exact:
            raise SelectError(
                "UnsupportedParquetType", f"{column.name}: has decimals of over 38 digits"
            )
        return column.type

    def source(self) -> str:
        return TABLE

    def star(self) -> list[tuple[str, Value]]:
        names: dict[str, int] = {}
        for number, column in enumerate(self.columns, 1):
            name = column.name
            while name in names:
                # An object of JSON with a key twice loses a value in most readers.
                name = f"_{number}" if name == column.name else f"_{name}"
            names[name] = number
        return [(name, _value(f"c{number}", self._type(number))) for name, number in names.items()]


def schema_of(engine: Engine, alias: str) -> ParquetSchema:
    """The schema of the object.

    :raises SelectError: it has too many columns.
    :raises sql_check.SqlError: it is no Parquet.
    """
    rows = engine.rows(
        f"SELECT name, num_children, {TOO_WIDE} FROM parquet_schema({quoted(PATH)})"  # noqa: S608
    )
    found = list(_top_level(iter(rows)))
    if len(found) > MOST_COLUMNS:
        raise SelectError("OverMaxColumn", f"the object has more than {MOST_COLUMNS} columns")
    kinds = engine.columns(f"SELECT * FROM read_parquet({quoted(PATH)})")  # noqa: S608
    columns = [
        Column(name, engine.type_of(kind), is_exact)
        for (name, is_exact), (_, kind) in zip(found, kinds, strict=True)
    ]
    return ParquetSchema(columns, alias)


def _top_level(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[str, bool]]:
    """The names of the columns, the children of the first element; whether all values are exact."""
    _, count, _ = next(rows)
    for _ in range(count or 0):
        name, left, is_wide = next(rows)
        while left:
            _, below, is_inner_wide = next(rows)
            left += (below or 0) - 1
            is_wide = is_wide or is_inner_wide
        yield name, not is_wide


def table_of(engine: Engine, request: Request, schema: ParquetSchema) -> str:
    """The SELECT of the records; with a range, those of the groups of rows that begin in it.

    :raises SelectError: the object does not fit a range.
    """
    names = ", ".join(f"c{number}" for number in range(1, len(schema.columns) + 1))
    if request.start == 0 and request.end is None:
        return f"SELECT * FROM read_parquet({quoted(PATH)}) AS file({names})"  # noqa: S608
    if any(column.name.lower() == _ROW_NUMBER for column in schema.columns):
        # The reader has no other name for it.
        raise SelectError(
            "UnsupportedScanRangeInput", f"ScanRange: the object has a column {_ROW_NUMBER}"
        )
    first, last = _rows_of(engine, request.start, request.end)
    # The reader skips the other groups by the numbers of their rows.
    return (
        f"SELECT {names} FROM read_parquet({quoted(PATH)}, {_ROW_NUMBER}=true)"  # noqa: S608
        f" AS file({names}, row_number) WHERE row_number >= {first} AND row_number < {last}"
    )


def _rows_of(engine: Engine, start: int, end: int | None) -> tuple[int, int]:
    """The first row of a range of bytes, and the one after its last row."""
    groups = engine.rows(
        # Some writers have 0 where there is no dictionary.
        "SELECT any_value(row_group_num_rows), min(CASE WHEN dictionary_page_offset > 0"
        " THEN least(dictionary_page_offset, data_page_offset) ELSE data_page_offset END)"
        f" FROM parquet_metadata({quoted(PATH)}) GROUP BY row_group_id ORDER BY row_group_id"  # noqa: S608
    )
    at, first, last = 0, 0, 0
    for count, begin in groups:
        if begin < start:
            first = at + count
        if end is None or begin <= end:
            last = at + count
        at += count
    return first, last


def _part(sql: str, kind: Any, step: tree.Step) -> tuple[str, Any, str]:
    """A part of a nested value, its type, and the condition that a record does not have it."""
    if isinstance(step, tree.Index) and kind.id in _LISTS:
        missing = f"coalesce(len({sql}) <= {step.position}, false)"
        return f"{sql}[{step.position + 1}]", kind.children[0][1], missing
    if isinstance(step, tree.Name) and kind.id == "struct":
        found = [(name, each) for name, each in kind.children if step.fits(name)]
        if len(found) == 1:
            name, inner = found[0]
            return f"struct_extract({sql}, {quoted(name)})", inner, ""
    if isinstance(step, tree.Name) and kind.id == "map" and kind.children[0][1].id == "varchar":
        found_in = f"map_extract({sql}, {quoted(step.text)})"
        return f"{found_in}[1]", kind.children[1][1], f"coalesce(len({found_in}) = 0, false)"
    shown = step.text if isinstance(step, tree.Name) else "[...]"
    raise SelectError("ParseInvalidPathComponent", f"{shown}: the value has no such part")


def _value(sql: str, kind: Any, missing: str = "") -> Value:
    """The value of an expression of a type of the file.

    :raises SelectError: there is no way to show such a value.
    """
    if kind.id in (*_LISTS, "struct", "map"):
        return Value(_json(sql, kind, 0), Kind.NESTED, missing)
    if kind.id == "blob":
        return Value(_text_of_bytes(sql), Kind.TEXT, missing)
    if kind.id == "timestamp_ns":
        return Value(_microseconds(sql), Kind.TIME, missing)
    if kind.id not in _SCALARS:
        raise SelectError("UnsupportedParquetType", f"values of the type {kind} are not supported")
    found, cast = _SCALARS[kind.id]
    whole = f"CAST({sql} AS {cast})" if cast and str(kind) != cast else sql
    return Value(whole, found, missing, is_whole=True)


def _text_of_bytes(sql: str) -> str:
    failed = raised("UnsupportedParquetType", "a value of bytes is no text in UTF-8")
    return f"CASE WHEN {sql} IS NOT NULL THEN coalesce(try(decode({sql})), {failed}) END"


def _microseconds(sql: str) -> str:
    """A timestamp with nanoseconds, if they are 0."""
    failed = raised("UnsupportedParquetType", "has nanoseconds, timestamps have microseconds", sql)
    return f"CASE WHEN epoch_ns({sql}) % 1000 <> 0 THEN {failed} ELSE CAST({sql} AS TIMESTAMP) END"


def _json(sql: str, kind: Any, depth: int) -> str:
    """The text of a value in JSON, with all digits; NULL stays NULL.

    :param depth: the number of variables around it.
    """
    each = f"e{depth}"
    if kind.id in _LISTS:
        element = _or_null(_json(each, kind.children[0][1], depth + 1))
        inner = f"array_to_string(list_transform({sql}, lambda {each}: {element}), ',')"
        return f"('[' || {inner} || ']')"
    if kind.id == "map":
        key = shown_text(_value(f"{each}.key", kind.children[0][1]))
        value = _or_null(_json(f"{each}.value", kind.children[1][1], depth + 1))
        entry = f"CAST(to_json({key}) AS VARCHAR) || ':' || {value}"
        inner = f"list_transform(map_entries({sql}), lambda {each}: {entry})"
        return f"('{{' || array_to_string({inner}, ',') || '}}')"
    if kind.id == "struct":
        parts = [
            f"{quoted(key_of(name) + ':')} || "
            + _or_null(_json(f"struct_extract({sql}, {quoted(name)})", inner, depth))
            for name, inner in kind.children
        ]
        whole = f"'{{' || concat_ws(',', {', '.join(parts)}) || '}}'"
        return f"CASE WHEN {sql} IS NOT NULL THEN {whole} END"
    return shown_json(_value(sql, kind))


def _or_null(json: str) -> str:
    return f"coalesce({json}, 'null')"
