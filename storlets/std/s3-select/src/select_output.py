"""The query in the engine's SQL whose rows are the records of the result, each as one text."""

from __future__ import annotations

from collections.abc import Sequence

import select_syntax as tree
from select_errors import SelectError, quoted
from select_request import CsvOutput, JsonOutput
from select_schema import Schema, key_of
from select_sql import Translator
from select_values import Kind, Value, shown_json, shown_text


def statement(query: tree.Query, schema: Schema, form: CsvOutput | JsonOutput, now: str) -> str:
    """The statement of a query.

    :param now: the time of the query, in SQL.
    :raises SelectError: the query is not valid.
    """
    try:
        translator = Translator(schema, now)
        record = _record(query, schema, form, translator)
        where = f" WHERE {translator.where(query.where)}" if query.where is not None else ""
    except RecursionError:
        raise SelectError("UnsupportedSqlStructure", "the query is nested too deeply") from None
    limit = f" LIMIT {query.limit}" if query.limit is not None else ""
    whole = f"{record} || {quoted(form.record)}"
    return f"SELECT {whole} AS record FROM {schema.source()}{where}{limit}"  # noqa: S608


def _record(
    query: tree.Query, schema: Schema, form: CsvOutput | JsonOutput, translator: Translator
) -> str:
    """The expression of a record, without its delimiter."""
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
            return _whole_csv(form) if isinstance(form, CsvOutput) else _WHOLE_JSON
        named = found
    if isinstance(form, CsvOutput):
        return _csv_record(form, [shown_text(value) for _, value in named])
    return _json_record(named)


def _name(column: tree.Column, number: int) -> str:
    """The key of a column in JSON."""
    if column.alias:
        return column.alias
    value = column.value
    last = value.steps[-1] if isinstance(value, tree.Path) else None
    return last.text if isinstance(last, tree.Name) else f"_{number}"


def _csv_record(form: CsvOutput, texts: Sequence[str]) -> str:
    fields = [_field(form, sql) for sql in texts]
    return f"concat_ws({quoted(form.delimiter)}, {', '.join(fields)})"


def _field(form: CsvOutput, sql: str) -> str:
    """A field of CSV; NULL is an empty one."""
    escape = form.escape or form.quote
    inner = f"coalesce({sql}, '')"
    escaped = inner
    if form.quote:
        if escape != form.quote:
            escaped = f"replace({escaped}, {quoted(escape)}, {quoted(escape * 2)})"
        escaped = f"replace({escaped}, {quoted(form.quote)}, {quoted(escape + form.quote)})"
        escaped = f"{quoted(form.quote)} || {escaped} || {quoted(form.quote)}"
    if form.quotes == "ALWAYS":
        return escaped
    special = sorted({form.delimiter, form.quote, *form.record, "\n", "\r"} - {""})
    tests = " OR ".join(f"contains({sql}, {quoted(char)})" for char in special)
    return f"CASE WHEN {tests} THEN {escaped} ELSE {inner} END"


def _json_record(named: Sequence[tuple[str, Value]]) -> str:
    """An object without the keys of missing values."""
    parts = []
    for name, value in named:
        shown = f"coalesce({_json_text(value)}, 'null')"
        part = f"{quoted(key_of(name) + ':')} || {shown}"
        if value.missing:
            part = f"CASE WHEN {value.missing} THEN NULL ELSE {part} END"
        parts.append(part)
    return f"'{{' || concat_ws(',', {', '.join(parts)}) || '}}'"


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
    fields = f"list_transform(json_keys(r), lambda k: {_field(form, shown_text(each))})"
    alone = _field(form, shown_text(Value("r", Kind.ANY)))
    return (
        f"CASE WHEN r IS NULL THEN '' WHEN json_type(r) = 'OBJECT'"
        f" THEN array_to_string({fields}, {quoted(form.delimiter)}) ELSE {alone} END"
    )
