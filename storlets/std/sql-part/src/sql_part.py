"""One SELECT over the rows that begin within a range of bytes of a CSV, with DuckDB shut in.

The input is seekable: only the first MiB, from which the types are inferred, and the bytes of the
part are read, with up to 1 MiB before it.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any

import csv_lines
import packed
import sql_query
from line_feeds import LineFeeds
from sql_check import SqlError
from sql_engine import Engine
from sql_pipes import BLOCK_BYTES, Feeder, Pipes
from sql_table import Table


class PartEngine(Engine):
    """The engine of this storlet."""

    storlet = "std:sql-part"


class SqlPart:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source = in_files[0]
        kind = packed.kind_of_text(source.read(packed.SIGN_BYTES))
        if kind:
            raise SqlError(f"the object is {kind}, which has no parts: std:sql reads all of it")
        source.seek(0)
        scan_range = csv_lines.range_of(params["scan-range"], source.size)

        def opened(engine: Engine, pipes: Pipes) -> Table:
            return PartTable(engine, pipes, source, {**params, "format": "csv"}, scan_range)

        sql_query.run(PartEngine, params, out_files[0], opened)


class PartTable(Table):
    """The rows of a part, with the names and types of the columns of the whole object."""

    def __init__(
        self,
        engine: Engine,
        pipes: Pipes,
        source: Any,
        params: dict[str, str],
        scan_range: tuple[int, int],
    ) -> None:
        super().__init__(engine, pipes, source, params)
        quotes = csv_lines.Quotes(self._form)
        first, last = scan_range
        self._names = b""
        if first and self._form.has_header:
            self._names = self.start.partition(b"\n")[0] + b"\n"
            csv_lines.Quotes(self._form).take(self._names.removeprefix(BOM_UTF8))
        self._part = csv_lines.Lines(source, first, last, quotes)

    def feeder(self, query: str) -> Feeder:
        part: Any = self._part
        head = self._names or part.read(BLOCK_BYTES)
        if self._form.has_line_feeds:
            part = LineFeeds(part, head, self._form)
            head = part.read(BLOCK_BYTES)
        # The lines are checked: no value has a line end.
        part = self.sieved(part, head, query, are_rows=True)
        return self._fed(part, head)
