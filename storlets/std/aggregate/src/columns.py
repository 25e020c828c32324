"""The values of one column of CSV, or of one key of JSON lines, with the numbers of their lines.

Memory is that of one block and one record.  A line that is not UTF-8, CSV or JSON is an error for
all settings, because its values are unknown.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

from exact_json import DECODER, RepeatedKey
from parameters import shown
from refusal import Refusal
from utf8_lines import MOST_RECORD_BYTES, Lines


class AggregateError(Refusal):
    """The column cannot be aggregated."""


class Compound(str):
    """The text of a list or an object in JSON."""

    __slots__ = ()


def csv_values(
    source: Any, column: str, has_header: bool, dialect: dict[str, Any]
) -> Iterator[tuple[int, str | None]]:
    """The number of the first line of each record, and its value, or None if the record has none.

    A record with more values than the header is an error: its values may be of other columns, as
    those of ``Smith, John`` without quotes are.  One delimiter more at the end is no value.
    Without a header, records may differ in length.

    :raises AggregateError: there is no such column, a record is too long, or the text is not CSV.
    """
    csv.field_size_limit(MOST_RECORD_BYTES)
    lines = Lines(source)
    rows = csv.reader(lines, **dialect, strict=True)
    line, width = 1, 0
    index = None if has_header else int(column) - 1
    try:
        for row in rows:
            lines.record = 0
            if index is None:
                if row:
                    index, width = index_of(column, row, line), len(row)
            elif has_header and row and len(row) > width + (not row[-1]):
                raise AggregateError(
                    f"line {line}: has {len(row)} values, and the header {width}: a value with"
                    " delimiters needs quotes"
                )
            elif row:
                yield line, row[index] if index < len(row) else None
            line = rows.line_num + 1
    except csv.Error as error:
        raise AggregateError(f"line {line}: {error}") from error
    if index is None:
        raise AggregateError(f"there is no column {shown(column)}: the object has no header")


def index_of(column: str, header: list[str], line: int) -> int:
    """The place of the column that has the name, or else the number, ``column``."""
    count = header.count(column)
    if count > 1:
        raise AggregateError(f"line {line}: {count} columns have the name {shown(column)}")
    if count:
        return header.index(column)
    if is_place(column) and int(column) <= len(header):
        return int(column) - 1
    names = ", ".join(shown(name) for name in header[:20])
    more = f" and {len(header) - 20} more" if len(header) > 20 else ""
    raise AggregateError(f"line {line}: there is no column {shown(column)} among {names}{more}")


def is_place(text: str) -> bool:
    """Whether it is a number of a column; the first one has number 1."""
    return text.isascii() and text.isdigit() and len(text) < 8 and int(text) > 0


def json_values(source: Any, key: str) -> Iterator[tuple[int, str | None]]:
    """The number of each line, and the value of ``key``, or None if it is absent or null.

    A number is a ``Number`` as it was written, a string is not.

    :raises AggregateError: a line is no object of JSON, or an object has a key twice.
    """
    lines = Lines(source)
    for line, text in enumerate(lines, 1):
        lines.record = 0
        if not text.strip():
            continue
        try:
            record = DECODER.decode(text)
        except RepeatedKey as error:
            raise AggregateError(f"line {line}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise AggregateError(f"line {line}: is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise AggregateError(f"line {line}: is not a JSON object")
        value = record.get(key)
        if value is None or isinstance(value, str):
            yield line, value
        elif isinstance(value, bool):
            yield line, json.dumps(value)
        else:
            yield line, Compound("a list" if isinstance(value, list) else "an object")
