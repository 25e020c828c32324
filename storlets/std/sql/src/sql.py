"""One SELECT over an object of CSV, JSON lines, records, Arrow or log lines, with DuckDB shut in.

The object streams through a pipe into the engine, and the result through another one out of it, so
neither is kept whole.  A query that reads the table more than once needs it in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import arrow_input
import csv_table
import late_keys
import line_feeds
import log_input
import missing_keys
import object_stream
import record_input
import sql_input
import sql_partial
import sql_run
from column_types import types_of
from packed import Unpacked
from parameters import shown
from sql_check import TABLE, SqlError
from sql_engine import Engine, identifier
from sql_pipes import Feeder, Pipes, opened_pipes

RECORDS = "records"
#: Formats whose lines declare no columns, so the parameters of types have no meaning.
TYPED = (RECORDS, sql_run.ARROW, *log_input.FORMS)


class Sql:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        require_sense(params)
        output, target = params["output"], out_files[0]
        with ExitStack() as stack:
            few = output == sql_run.ARROW
            engine = stack.enter_context(
                Engine(int(params["memory-mib"]), few_rows_wait=few)
            )
            query = engine.checked(params["query"])
            source, compression = in_files[0], params["compression"]
            if compression != "none":
                source = Unpacked(source, compression)
            pipes = stack.enter_context(opened_pipes("input", "output"))
            table = _Table(engine, pipes, source, params)
            target.set_metadata({"Content-Type": sql_run.TYPES[output]})
            kept = ""
            if output != sql_run.PARTIAL:
                select = table.opened()
                kept = select if engine.scans(query) > 1 else ""
            elif table.has_no_rows():
                target.write(_without_rows(table, query).line())
                return
            else:
                table.opened()
                missing = table.completed(query)
                header, plan = sql_partial.split(engine, query, missing, table.given)
                target.write(header.line())
                query = plan.split
            work = sql_run.Work(engine, query, pipes, output, kept)
            sql_run.run(work, table.feeder(query), pipes, target)


def require_sense(params: dict[str, str]) -> None:
    """Raise :class:`SqlError` for parameters that exclude each other."""
    form, faults = params["format"], []
    if form == RECORDS and not params["struct"]:
        faults.append("struct: is missing: records need one, such as: i4 id, s96 text")
    if form != RECORDS and params["struct"]:
        faults.append("struct: is for format=records only")
    if form in TYPED and (params["columns"] or params["types"] == "text"):
        faults.append(f"columns and types: are for CSV and JSON lines: {form} has types of its own")
    if faults:
        raise SqlError("; ".join(faults))


class _Table:
    """The object as the table of the engine.

    :ivar head: the first bytes for the engine.
    """

    def __init__(self, engine: Engine, pipes: Pipes, source: Any, params: dict[str, str]) -> None:
        """Read the head.

        :raises SqlError: with all faults of the parameters.
        """
        self.engine = engine
        self._pipes = pipes
        self._source = source
        form = params["format"]
        self._made: Any = None
        self._form: Any = None
        self._select = ""
        self._inlet = object_stream.piped(pipes)
        self._missing: Mapping[str, str] = {}
        if form == RECORDS:
            self._made = record_input.AsCsv(self._source, params["struct"])
        elif form == sql_run.ARROW:
            self._made = arrow_input.ArrowTable(self._source, engine.storlet)
        elif form in log_input.FORMS:
            self._made = log_input.LogLines(self._source, form)
        else:
            form_of = sql_input.format_of(params, types_of(params["columns"]))
            may_lack = params["output"] == sql_run.PARTIAL and not form_of.is_csv
            self._form = replace(form_of, may_lack=may_lack)
        self.head: bytes = self._made.head if self._made else sql_input.head_of(self._source)
        if self._form is not None:
            found = line_feeds.unified(self._source, self.head, self._form)
            self._source, self.head, self._form = found

    def opened(self) -> str:
        """Make the table, and give the SELECT that reads the object.

        :raises SqlError: the object does not have the format.
        """
        engine, pipes = self.engine, self._pipes
        if isinstance(self._made, arrow_input.ArrowTable):
            select = self._made.select_of(engine, pipes.descriptor("input_reader"))
        elif self._made:
            select = csv_table.select_of(self._made.columns, self._inlet.path)
        else:
            self._inlet = sql_input.inlet_of(engine, pipes, self._form, self.head)
            with tempfile.TemporaryDirectory(prefix="sql-") as folder:
                sample = Path(folder, "sample")
                select = sql_input.select_of(engine, self._form, self.head, sample, self._inlet)
        engine.close_in([self._inlet.path, pipes.paths["output"]])
        engine.rows(f"CREATE VIEW {identifier(TABLE)} AS {select}")
        self._select = select
        return select

    @property
    def given(self) -> Collection[str]:
        """The columns with a given type."""
        return () if self._form is None else list(self._form.columns)

    def completed(self, query: str) -> Mapping[str, str]:
        """Give the open table the keys that it lacks for a query over many objects.

        :return: these keys, each with its type in SQL, or nothing if that is not known.
        :raises SqlError: the query needs the type of one.
        """
        if self._made or self._form.is_csv:
            return {}
        table = identifier(TABLE)
        names = [name for name, _ in self.engine.columns(f"SELECT * FROM {table}")]  # noqa: S608
        self._missing = missing_keys.found(self.engine, query, names, self._form)
        if self._missing:
            more = ", ".join(
                f"{f'CAST(NULL AS {kind})' if kind else 'NULL'} AS {identifier(name)}"
                for name, kind in self._missing.items()
            )
            self.engine.rows(
                f"CREATE OR REPLACE VIEW {table} AS SELECT *, {more} FROM ({self._select})"  # noqa: S608
            )
            try:
                self.engine.columns(query)
            except SqlError as error:
                names = sorted(self._missing)
                raise SqlError(f"{error} (the object has no key {shown(names[0])})") from None
        return self._missing

    def has_no_rows(self) -> bool:
        """Whether the object has no row, and so its columns have no types."""
        return not self._made and sql_input.has_no_rows(self.head, self._form)

    def feeder(self, query: str) -> Feeder:
        """The thread that gives the engine the object."""
        return self._inlet.feeder(self._watched(query), self.head, self._pipes)

    def _watched(self, query: str) -> Any:
        """The rest of the object, which fails where ``query`` would show a key without a column."""
        if self._made:
            return self._made
        if self._form.is_csv or len(self.head) < sql_input.HEAD_BYTES:
            return self._source
        columns = self.engine.columns(f"SELECT * FROM {identifier(TABLE)}")  # noqa: S608
        types = {
            name: self.engine.type_of(kind) for name, kind in columns if name not in self._missing
        }
        known = late_keys.shown_by(self.engine.tree(query), types, self._missing)
        return self._source if known.is_empty else late_keys.Watched(self._source, self.head, known)


def _without_rows(table: _Table, query: str) -> sql_partial.Header:
    """The header of an object without rows: its columns are texts, which the query may not fit."""
    try:
        table.opened()
        return replace(sql_partial.split(table.engine, query)[0], has_rows=False)
    except SqlError:
        return sql_partial.Header(query)
