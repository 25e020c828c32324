"""The query in the engine's SQL whose rows are the records of the result, each as one text."""

from __future__ import annotations

from typing import NamedTuple

import select_syntax as tree
from select_errors import SelectError, quoted
from select_request import CsvOutput, JsonOutput
from select_schema import Schema, key_of
from select_sql import Translator
from select_values import Kind, Value, shown_json, shown_text


#: The name of the engine's function for a field of CSV.
_FIELD = "csv_field"


def definitions(form: CsvOutput | JsonOutput) -> list[str]:
    """Statements that come before the one of a query.

    The rules of quotes are in a function of the engine, or an object with some hundreds of columns
    would have a statement that is too long.
    """
    return [_definition_of_field(form)] if isinstance(form, CsvOutput) else []


class Statement(NamedTuple):
    """SQL of the engine; with ``is_by_record`` the result is that of all parts of the object."""

    sql: str
    is_by_record: bool


def statement(
    query: tree.Query, schema: Schema, form: CsvOutput | JsonOutput, now: str
) -> Statement:
    """The statement of a query.

    :param now: the time of the query, in SQL.
    :raises SelectError: the query is not valid.
    """
    try:
        translator = Translator(schema, now)
        fields = _fields(query, schema, form, translator)
        where = f" WHERE {translator.where(query.where)}" if query.where is not None else ""
    except RecursionError:
        raise SelectError("UnsupportedSqlStructure", "the query is nested too deeply") from None
    limit = f" LIMIT {query.limit}" if query.limit is not None else ""
    # Columns of an inner query: a field of CSV uses its text more than once.
    named = ", ".join(f"{sql} AS f{number}" for number, sql in enumerate(fields, 1))
    inner = f"SELECT {named} FROM {schema.source()}{where}{limit}"  # noqa: S608
    is_whole = not query.columns and schema.star() is None
    record = "f1" if is_whole else _record(form, len(fields))
    sql = f"SELECT {record} || {quoted(form.record)} AS record FROM ({inner})"  # noqa: S608
    return Statement(sql, is_by_record=not limit and not translator.has_aggregates)


def _fields(
    query: tree.Query, schema: Schema, form: CsvOutput | JsonOutput, translator: Translator
) -> list[str]:
    """The expressions of the fields of a record, or of a whole record."""
    if query.columns:
        named = [
            (_name(column, number), translator.value(column.value))
            for number, column in enumerate(query.columns, 1)
        ]
        if translator.has_aggregates and translator.has_paths:
            raise SelectError(
                "UnsupportedSqlStructure", "aggregates and columns cannot be mixed without GROUP BY"
            )
    else:
        found = schema.star()
        if found is None:
            return [_whole_csv(form) if isinstance(form, CsvOutput) else _WHOLE_JSON]
        named = found
    if isinstance(form, CsvOutput):
        return [shown_text(value) for _, value in named]
    return [_json_part(name, value) for name, value in named]


def _record(form: CsvOutput | JsonOutput, count: int) -> str:
    """A record of the fields ``f1``, ``f2`` and so on, without its delimiter."""
    names = [f"f{number}" for number in range(1, count + 1)]
    if isinstance(form, CsvOutput):
        return f"concat_ws({quoted(form.delimiter)}, {', '.join(map(_field, names))})"
    return f"'{{' || concat_ws(',', {', '.join(names)}) || '}}'"


def _name(column: tree.Column, number: int) -> str:
    """The key of a column in JSON."""
    if column.alias:
        return column.alias
    value = column.value
    last = value.steps[-1] if isinstance(value, tree.Path) else None
    return last.text if isinstance(last, tree.Name) else f"_{number}"


def _field(sql: str) -> str:
    return f"{_FIELD}({sql})"


def _definition_of_field(form: CsvOutput) -> str:
    """The function that makes a field of CSV; NULL is an empty one."""
    escape = form.escape or form.quote
    inner = "coalesce(field, '')"
    escaped = inner
    if form.quote:
        if escape != form.quote:
            escaped = f"replace({escaped}, {quoted(escape)}, {quoted(escape * 2)})"
        escaped = f"replace({escaped}, {quoted(form.quote)}, {quoted(escape + form.quote)})"
        escaped = f"{quoted(form.quote)} || {escaped} || {quoted(form.quote)}"
    special = sorted({form.delimiter, form.quote, *form.record, "\n", "\r"} - {""})
    tests = " OR ".join(f"contains(field, {quoted(char)})" for char in special)
    needed = f"CASE WHEN {tests} THEN {escaped} ELSE {inner} END"
    return f"CREATE MACRO {_FIELD}(field) AS {escaped if form.quotes == 'ALWAYS' else needed}"


def _json_part(name: str, value: Value) -> str:
    """A key with its value; NULL if the record does not have it."""
    shown = f"coalesce({_json_text(value)}, 'null')"
    part = f"{quoted(key_of(name) + ':')} || {shown}"
    return f"CASE WHEN {value.missing} THEN NULL ELSE {part} END" if value.missing else part


def _json_text(value: Value) -> str:
    return "NULL" if value.kind is Kind.NULL else shown_json(value)


#: A record of JSON as it is; one that is no object gets the key _1.
_WHOLE_JSON = (
    "CASE WHEN r IS NULL THEN '{}' WHEN json_type(r) = 'OBJECT' THEN CAST(r AS VARCHAR)"
    " ELSE '{\"_1\":' || CAST(r AS VARCHAR) || '}' END"
)


def _whole_csv(form: CsvOutput) -> str:
    """All values of a record of JSON, in their order."""
    escaped = "replace(replace(k, '~', '~0'), '/', '~1')"
    each = Value(f"json_extract(r, '/' || {escaped})", Kind.ANY)
    fields = f"list_transform(json_keys(r), lambda k: {_field(shown_text(each))})"
    alone = _field(shown_text(Value("r", Kind.ANY)))
    return (
        f"CASE WHEN r IS NULL THEN '' WHEN json_type(r) = 'OBJECT'"
        f" THEN array_to_string({fields}, {quoted(form.delimiter)}) ELSE {alone} END"
    )
