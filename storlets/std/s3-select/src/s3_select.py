"""One query of S3's SelectObjectContent, with DuckDB shut in.

The object streams into the engine.  The rows of the translated query are the records
of the result, each as one text, and leave in frames.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import Any

import object_stream
import packed
import select_needles
import select_parser
import select_parts
import select_run
import select_streams
import select_tables
from last_line import LastLine
from line_sieve import Sieve, Sieved
from object_stream import Inlet
from select_errors import SelectError
from select_frames import Frames
from select_parts import Parts, Records
from select_request import CsvInput, JsonInput, ParquetInput, Request, request_of
from select_schema import TABLE
from select_streams import MOST_RECORD_BYTES, Encoding, Stream, Utf8
from select_tables import CsvTable, JsonTable
from short_lines import ShortLines
from sql_engine import Engine, identifier
from sql_pipes import opened_pipes

#: The engine fills its memory with CSV that it has read, and drops that only then.  All workers of
#: an account share the memory of the storlet.
CSV_MIB = 128
_COMPRESSIONS = {"NONE": "none", "GZIP": "gzip", "BZIP2": "bz2"}


class SelectEngine(Engine):
    """The engine of this storlet."""

    storlet = "std:s3-select"


class S3Select:
    """See the README."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        with select_run.framed(out_files[0]) as frames:
            try:
                with ExitStack() as stack:
                    _Run(in_files[0], frames, params, stack).run()
            except packed.PackedError as error:
                code = "TruncatedInput" if "is cut" in str(error) else "InvalidCompressionFormat"
                raise SelectError(code, str(error)) from None


class _Run:
    def __init__(
        self, source: Any, frames: Frames, params: dict[str, str], stack: ExitStack
    ) -> None:
        self._request = request_of(params["request"])
        form = self._request.source
        if isinstance(form, ParquetInput):
            raise SelectError("InvalidDataSource", "Parquet: use std:s3-select-parquet")
        self._form = form
        self._query = select_parser.parsed(self._request.expression)
        self._memory_mib = int(params["memory-mib"])
        if isinstance(form, CsvInput):
            self._memory_mib = min(self._memory_mib, CSV_MIB)
        self._frames = frames
        self._raw = select_streams.Counted(source)
        self._plain = _plain(self._raw, self._request)
        self._stack = stack

    @cached_property
    def _engine(self) -> SelectEngine:
        """The engine, whose start is two thirds of a small run; most wrong queries need none."""
        return self._stack.enter_context(SelectEngine(self._memory_mib))

    def run(self) -> None:
        request = self._request
        form = self._form
        source: Stream = self._plain
        if isinstance(form, CsvInput) and form.other_record:
            source = select_streams.OtherRecords(source, form.other_record)
        source = select_streams.Ranged(source, request.start, request.end)
        is_by_cr = isinstance(form, CsvInput) and form.record == "\r"
        line_end = b"\r" if is_by_cr else b"\n"
        if isinstance(form, CsvInput) or form.type == "LINES":
            source = ShortLines(source, select_streams.too_long, line_end=line_end)
        if isinstance(form, CsvInput):
            source = select_streams.CsvText(source, form)
            if form.record != "\r":
                source = select_streams.LineFeeds(source, form)
            if form.header != "NONE" and request.start == 0:
                source = select_streams.Headed(source)
        source = LastLine(source, line_end)
        # One byte more: an object of this size is complete.
        head = select_streams.head_of(source, select_tables.HEAD_BYTES + 1)
        encoding = Encoding()
        encoding.check(head)
        if isinstance(form, JsonInput) and len(head) == 1:
            # To the engine an object of JSON lines of one byte is empty.
            head += b"\n"
        table = select_tables.table_of(self._query, form, head, is_begin=request.start == 0)
        statement = select_run.translated(self._query, table.schema, request)
        statement = select_run.checked(self._engine, statement, request)
        if isinstance(table, CsvTable):
            source = self._sieved(source, head, table)
        # Lines that the query cannot select are not checked.
        source = Utf8(source, encoding)
        if isinstance(table, CsvTable) and select_parts.fits(table.form, table.width, statement):
            self._select_parts(table, statement.sql, source, head)
        else:
            self._select_whole(table, statement.sql, source, head)
        self._frames.end(self._raw.count, self._plain.count)

    def _sieved(self, source: Stream, head: bytes, table: CsvTable) -> Stream:
        """The rest of the object, without lines that the query cannot select."""
        form = table.form
        has_escapes = form.escape not in ("", form.quote)
        # The first records may be enough, and the engine takes lines only when it has many.
        if has_escapes or form.other_record or self._query.limit is not None:
            return source
        found = select_needles.Conditions(table.schema, form.quote).needles(self._query.where)
        if not found:
            return source
        self._engine.errors.has_all_lines = False
        line_end = b"\r" if form.record == "\r" else b"\n"
        # The quotes are checked: without quoted records, no line end is within them.
        marks = form.delimiter.encode(), form.quote.encode()
        sieve = Sieve(found, line_end, *marks, are_rows=not form.quoted_records)
        return Sieved(source, head, sieve, MOST_RECORD_BYTES, self._report)

    def _select_parts(self, table: CsvTable, statement: str, source: Stream, head: bytes) -> None:
        """Select record by record, with several threads."""
        records = Records(source, head, table.form, has_header=table.has_header)
        parts = Parts(self._engine, records, self._stack)
        self._make_view(replace(table, has_header=False), parts.inlet)
        parts.select(statement, self._frames.records, self._report)

    def _select_whole(
        self, table: CsvTable | JsonTable, statement: str, source: Stream, head: bytes
    ) -> None:
        """Let the engine read the object in one thread."""
        pipes = self._stack.enter_context(opened_pipes("input"))
        inlet = object_stream.framed(self._engine, pipes)
        self._make_view(table, inlet)
        feeder = inlet.feeder(source, head, pipes, self._report)
        feeder.start()
        try:
            select_run.send(self._engine, statement, self._frames.records)
        finally:
            pipes.close("input_reader")
            feeder.join()
            feeder.require_no_error()

    def _make_view(self, table: CsvTable | JsonTable, inlet: Inlet) -> None:
        self._engine.close_in([inlet.path])
        self._engine.rows(f"CREATE VIEW {identifier(TABLE)} AS {table.select(inlet)}")

    def _report(self) -> None:
        self._frames.progress(self._raw.count, self._plain.count)


def _plain(raw: select_streams.Counted, request: Request) -> select_streams.Counted:
    """The data without their compression, counted."""
    kind = _COMPRESSIONS[request.compression]
    return select_streams.Counted(raw if kind == "none" else packed.Unpacked(raw, kind))
