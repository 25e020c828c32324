"""CSV, JSON, Arrow and records into each other, or into Parquet, with DuckDB shut in.

The object streams through a pipe into the engine, and the result through another one out of it, so
neither is kept whole.  A value that does not fit the type of its column, or the output, is an error
with the value, and never another value.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import arrow_input
import converted
import csv_table
import line_feeds
import object_stream
import packed
import record_input
import sql_input
import sql_run
from column_types import types_of
from converted import RECORDS, ConvertEngine
from json_documents import AsLines, path_of
from last_line import LastLine
from line_check import Checked
from sql_check import TABLE, SqlError
from sql_engine import identifier
from sql_pipes import Sample, opened_pipes


class Convert:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        require_sense(params)
        types = types_of(params["columns"])
        with ExitStack() as stack:
            few = params["output"] == sql_run.ARROW
            engine = stack.enter_context(
                ConvertEngine(int(params["memory-mib"]), few_rows_wait=few)
            )
            form = params["format"]
            source = packed.opened(in_files[0], params["compression"], is_text=form != RECORDS)
            if form == "json":
                source, form = AsLines(source, path_of(params["rows"])), "jsonl"
            pipes = stack.enter_context(opened_pipes("input", "output"))
            inlet = object_stream.piped(pipes)
            paths = [pipes.paths["output"]]
            if form == RECORDS:
                source = record_input.AsCsv(source, params["struct"])
                head = source.head
                select = csv_table.select_of(source.columns, inlet.path)
            elif form == sql_run.ARROW:
                source = arrow_input.ArrowTable(source, engine.storlet)
                head = source.head
                select = source.select_of(engine, pipes.descriptor("input_reader"))
            else:
                lines = sql_input.format_of(params, types)
                head = sql_input.head_of(source)
                sql_input.require_text(head)
                source, head, lines = line_feeds.unified(source, head, lines)
                sample = stack.enter_context(Sample())
                formed = sql_input.Head(head, lines)
                inlet = formed.inlet(engine, pipes)
                found = sql_input.select_of(engine, formed, None, sample, inlet)
                select = found.text
                paths.append(sample.path)
            engine.close_in([inlet.path, *paths])
            table = identifier(TABLE)
            engine.rows(f"CREATE VIEW {table} AS {select}")
            columns = converted.columns_of(engine)
            if form == "jsonl":
                kinds = {name: engine.type_of(kind) for name, kind in columns}
                source = LastLine(Checked(source, head, kinds), b"\n", head)
            elif form == "csv":
                source = line_feeds.ended(source, head, lines, has_threads=formed.has_threads)
                rows = sql_input.Rows(source, head, formed)
                source = rows.source
            feeder = inlet.feeder(source, head, pipes)
            converted.write(engine, columns, params, pipes, feeder, out_files[0])
            if form == "csv":
                rows.require_all(engine, found, sample)


def require_sense(params: dict[str, str]) -> None:
    """Raise :class:`SqlError` for parameters that exclude each other."""
    faults = []
    is_input, is_output = params["format"] == RECORDS, params["output"] == RECORDS
    if is_input and is_output:
        faults.append("format and output are both records: want std:records")
    if (is_input or is_output) and not params["struct"]:
        faults.append("struct: is missing: records need one, such as: i4 id, s96 text")
    if params["rows"] and params["format"] != "json":
        faults.append("rows: is for format=json only")
    if params["struct"] and not (is_input or is_output):
        faults.append("struct: is for records only")
    has_types = is_input or params["format"] == sql_run.ARROW
    if has_types and (params["columns"] or params["types"] == "text"):
        faults.append(
            "columns and types: are for CSV and JSON; others have types of their own"
        )
    if faults:
        raise SqlError("; ".join(faults))
