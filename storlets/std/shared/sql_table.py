"""The object as the table of a query, in the formats of std:sql."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import object_stream
import sql_input
import sql_run
from column_types import types_of
from last_line import LastLine
from parameters import shown
from sql_check import TABLE, SqlError, folded_name, names_in
from sql_engine import Engine, identifier
from sql_pipes import Feeder, Pipes, Sample
from sql_syntax import once

RECORDS = "records"
#: Lines of logs (``log_input``).
LOGS = ("apache", "syslog")
#: Formats that the engine never reads from a pipe alone.
NOT_PIPED = ("json", "jsonl", sql_run.ARROW)


class Table:
    """The object as the table of the engine.

    :ivar start: the first MiB of the object.
    :ivar head: the same for the engine.
    """

    def __init__(self, engine: Engine, pipes: Pipes, source: Any, params: dict[str, str]) -> None:
        """Read the head.

        :raises SqlError: with all faults of the parameters.
        """
        self.engine = engine
        self._pipes = pipes
        self._source = source
        form = self._format = params["format"]
        self._made: Any = None
        self._form: Any = None
        self._select = ""
        self._found: Any = None
        self._sample: Any = None
        self._rows: Any = None
        self._used: frozenset[str] | None = None
        self._inlet = object_stream.piped(pipes)
        self._missing: Mapping[str, str] = {}
        if form == RECORDS:
            import record_input

            self._made = record_input.AsCsv(self._source, params["struct"])
        elif form == sql_run.ARROW:
            import arrow_input

            self._made = arrow_input.ArrowTable(self._source, engine.storlet)
        elif form in LOGS:
            import log_input

            self._made = log_input.LogLines(self._source, form)
        else:
            form_of = sql_input.format_of(params, types_of(params["columns"]))
            may_lack = params["output"] == sql_run.PARTIAL and not form_of.is_csv
            self._form = replace(form_of, may_lack=may_lack)
        self.start: bytes = self._made.head if self._made else sql_input.head_of(self._source)
        if self._form is not None:
            sql_input.require_text(self.start)
        self.head = self.start
        # The interpreter searches faster for one byte than for two.
        has_cr = b"\r" in self.head and b"\r\n" in self.head
        if self._form is not None and self._form.is_csv and has_cr:
            import line_feeds

            found = line_feeds.unified(self._source, self.head, self._form)
            self._source, self.head, self._form = found
        self._head = sql_input.Head(self.head, self._form)

    @property
    def is_piped(self) -> bool:
        """Whether the engine reads the object from a pipe, and nothing else of it."""
        if self._made:
            return self._format != sql_run.ARROW
        return self._form.is_csv and self._head.has_threads

    def move(self, engine: Engine, pipes: Pipes) -> None:
        """Use another engine, before :meth:`open`."""
        self.engine, self._pipes = engine, pipes
        self._inlet = object_stream.piped(pipes)

    def open(self, query: str) -> None:
        """Make the table for a checked query.

        :raises SqlError: the object does not have the format.
        """
        engine, pipes = self.engine, self._pipes
        paths = [pipes.paths["output"]]
        if self._format == sql_run.ARROW:
            select = self._made.select_of(engine, pipes.descriptor("input_reader"))
        elif self._made:
            import csv_table

            select = csv_table.select_of(self._made.columns, self._inlet.path)
        else:
            self._inlet = self._head.inlet(engine, pipes)
            self._used = once("names", query, (), lambda: names_in(engine.syntax.tree(query)))
            self._sample = sample = Sample(pipes.place)
            paths.append(sample.path)
            found = sql_input.select_of(engine, self._head, self._used, sample, self._inlet)
            self._found, select = found, found.text
        engine.close_in([self._inlet.path, *paths])
        # A stream of Arrow has its columns, and not the SELECT.
        engine.show(select, has_columns=self._format != sql_run.ARROW)
        self._select = select

    def kept(self) -> str:
        """The SELECT of the columns that the query needs, for a table in memory."""
        if self._used is None:
            return self._select
        names = [name for name, _ in self.engine.columns(self._select)]
        used = [name for name in names if folded_name(name) in self._used] or names[:1]
        return f"SELECT {', '.join(map(identifier, used))} FROM ({self._select})"  # noqa: S608

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
        import missing_keys

        table = identifier(TABLE)
        names = [name for name, _ in self.engine.columns(f"SELECT * FROM {table}")]  # noqa: S608
        self._missing = missing_keys.found(self.engine, query, names, self._form)
        if self._missing:
            more = ", ".join(
                f"{f'CAST(NULL AS {kind})' if kind else 'NULL'} AS {identifier(name)}"
                for name, kind in self._missing.items()
            )
            self.engine.show(f"SELECT *, {more} FROM ({self._select})")  # noqa: S608
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
        source, head = self._watched(query), self.head
        if self._found and self._found.has_checked_head and source is not self._source:
            head = source.kept_head()
        if self._form is not None and self._form.is_csv:
            has_threads = self._head.has_threads
            if not has_threads or "escapechar" in self._form.reader:
                import line_feeds

                source = line_feeds.ended(source, head, self._form, has_threads=has_threads)
        return self._fed(source, head)

    def _fed(self, source: Any, head: bytes) -> Feeder:
        """The thread that gives the engine ``head`` and then ``source``."""
        if self._form is not None and self._form.is_csv:
            self._rows = sql_input.Rows(source, head, self._head)
            source = self._rows.source
        elif self._form is not None:
            source = LastLine(source, b"\n", head)
        return self._inlet.feeder(source, head, self._pipes)

    def require_all(self) -> None:
        """Raise :class:`SqlError` if the engine has dropped rows of the object, which it has read
        to its end.
        """
        if self._rows is not None:
            self._rows.require_all(self.engine, self._found, self._sample)

    def close(self) -> None:
        """End the use of the file for samples."""
        if self._sample is not None:
            self._sample.__exit__()
            self._sample = None

    def _watched(self, query: str) -> Any:
        """The rest of the object, which fails where ``query`` would show a key without a column."""
        if self._made:
            return self._made
        if len(self.head) < sql_input.HEAD_BYTES:
            return self._source
        if self._form.is_csv:
            return self.sieved(self._source, self.head, query)
        import late_keys

        columns = self.engine.columns(f"SELECT * FROM {identifier(TABLE)}")  # noqa: S608
        types = {
            name: self.engine.type_of(kind) for name, kind in columns if name not in self._missing
        }
        tree = self.engine.syntax.tree(query)
        known = late_keys.shown_by(tree, types, self._missing, self._used)
        return self._source if known.is_empty else late_keys.Watched(self._source, self.head, known)

    def sieved(self, source: Any, head: bytes, query: str, *, are_rows: bool = False) -> Any:
        """The rest of a CSV, without lines that ``query`` cannot select.

        :param are_rows: lines are known to be rows.
        """
        reader = self._form.reader
        quote = reader["quotechar"] or ""
        if reader.get("escapechar", quote) != quote:
            return source
        import sql_needles
        from line_sieve import Sieve, Sieved

        columns = self.engine.columns(f"SELECT * FROM {identifier(TABLE)}")  # noqa: S608
        found = sql_needles.of_query(self.engine.syntax.tree(query), dict(columns), quote)
        if not found:
            return source
        self.engine.errors.has_all_lines = False
        line_end = self._head.line_end
        marks = reader["delimiter"].encode(), quote.encode()
        sieve = Sieve(found, line_end, *marks, are_rows=are_rows)
        return Sieved(source, head, sieve, sql_input.MOST_LINE_BYTES)
