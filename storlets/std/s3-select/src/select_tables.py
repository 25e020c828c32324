"""The object as the engine's table: the reader's call, and the schema of its records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

import select_syntax as tree
from object_stream import Inlet
from select_errors import SelectError, quoted
from select_request import CsvInput, JsonInput
from select_schema import LF, CsvSchema, JsonSchema, Schema
from select_streams import MOST_RECORD_BYTES, too_long

#: The number of columns comes from this much.
HEAD_BYTES = 1 << 20
BUFFER_BYTES = 8 << 20
#: Bound of a value of JSON that is no line.
MOST_DOCUMENT_BYTES = 16 << 20
MOST_COLUMNS = 10_000


@dataclass(frozen=True)
class CsvTable:
    """CSV with ``width`` columns.

    :param has_header: whether the first record has their names.
    """

    form: CsvInput
    schema: CsvSchema
    width: int
    has_header: bool

    def select(self, inlet: Inlet) -> str:
        """The call of the engine's reader."""
        names = [f"c{number}" for number in range(1, self.width + 1)]
        columns = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
        form = self.form
        written = r"\r" if form.record == "\r" else r"\n"
        escape = form.escape or form.quote
        # A field that is not there is NULL; no field without quotes is a line's end.  With
        # null_padding, a thread that begins at an empty line makes a record of it: so one thread
        # reads.
        return (
            f"SELECT * FROM read_csv({quoted(inlet.path)}, auto_detect=false, columns={{{columns}}},"  # noqa: S608
            f" delim={quoted(form.delimiter)}, quote={quoted(form.quote)}, escape={quoted(escape)},"
            f" header={str(self.has_header).lower()}, new_line={quoted(written)}, comment='', skip=0,"
            f" null_padding=true, nullstr='\n', allow_quoted_nulls=false, parallel=false,"
            f" max_line_size={MOST_RECORD_BYTES}, buffer_size={BUFFER_BYTES}{inlet.options})"
        )


@dataclass(frozen=True)
class JsonTable:
    """JSON: a column with each record."""

    form: JsonInput
    schema: Schema

    def select(self, inlet: Inlet) -> str:
        """The call of the engine's reader."""
        is_lines = self.form.type == "LINES"
        layout = "newline_delimited" if is_lines else "unstructured"
        most = MOST_RECORD_BYTES if is_lines else MOST_DOCUMENT_BYTES
        return (
            f"SELECT r FROM read_json({quoted(inlet.path)}, auto_detect=false,"  # noqa: S608
            f" columns={{'r': 'JSON'}}, format='{layout}', records='false',"
            f" maximum_object_size={most}{inlet.options})"
        )


def table_of(
    query: tree.Query, form: CsvInput | JsonInput, head: bytes, *, is_begin: bool
) -> CsvTable | JsonTable:
    """The table of an object.

    :param head: its start.
    :param is_begin: whether the first record of the head is the first one of the object.
    :raises SelectError: the query or the object does not fit the format.
    """
    if isinstance(form, JsonInput):
        return JsonTable(form, JsonSchema(query.alias, query.steps, query.is_numbered))
    if query.steps:
        raise SelectError("ParseInvalidPathComponent", "S3Object: a record of CSV has no parts")
    has_header = form.header != "NONE" and is_begin
    names, width = _columns(form, head, has_header=has_header)
    if form.header == "USE" and not is_begin:
        raise SelectError(
            "UnsupportedScanRangeInput", "FileHeaderInfo USE requires a range from the first byte"
        )
    other = form.other_record
    if other:
        names = [name.translate(str.maketrans(other + LF, LF + other)) for name in names]
    used = names if form.header == "USE" else None
    schema = CsvSchema(width, used, query.alias, other)
    return CsvTable(form, schema, width, has_header)


def _columns(form: CsvInput, head: bytes, *, has_header: bool) -> tuple[list[str], int]:
    """The first record, and the most fields of a record in the head."""
    line_end = b"\r" if form.record == "\r" else b"\n"
    is_all = len(head) <= HEAD_BYTES
    if not is_all and line_end not in head[: MOST_RECORD_BYTES + 1]:
        # The engine would take it into memory first.
        raise too_long()
    whole = head if is_all else head[: head.rfind(line_end, 0, HEAD_BYTES + 1) + 1]
    text = whole.decode(errors="replace")
    lines = io.StringIO(text, newline="")
    records = _reader(form, lines)
    try:
        first = next(filter(None, records), [])
        ends_with_cr = first and form.record != "\r" and text.endswith("\r", 0, lines.tell())
        if has_header and ends_with_cr:
            # The engine drops the header, and would not find it.
            raise SelectError("CSVParsingError", "a CR that ends no record")
        width = max(map(len, records), default=0)
    except csv.Error as error:
        raise SelectError("CSVParsingError", str(error)) from None
    width = max(1, len(first), width)
    if width > MOST_COLUMNS:
        raise SelectError("OverMaxColumn", f"a record has more than {MOST_COLUMNS} fields")
    return (first if has_header else []), width


def _reader(form: CsvInput, lines: Iterator[str]) -> Iterator[list[str]]:
    """The records of whole lines; empty lines are empty records."""
    csv.field_size_limit(MOST_RECORD_BYTES)
    is_doubled = form.escape in ("", form.quote)
    return csv.reader(
        lines,
        delimiter=form.delimiter,
        quotechar=form.quote or None,
        quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
        doublequote=is_doubled,
        escapechar=None if is_doubled else form.escape,
    )
