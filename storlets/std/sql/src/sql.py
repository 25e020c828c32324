"""One SELECT over an object of CSV or JSON lines, with DuckDB shut in.

The object streams through a pipe into the engine, and the result through another one out of it, so
neither is kept whole.  A query that reads the table more than once needs it in memory.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import sql_input
import sql_run
from packed import Unpacked
from sql_check import TABLE
from sql_engine import Engine, identifier
from sql_pipes import Feeder, opened_pipes


class Sql:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        form = sql_input.format_of(params)
        with ExitStack() as stack:
            engine = stack.enter_context(Engine(int(params["memory-mib"])))
            query = engine.checked(params["query"])
            source, compression = in_files[0], params["compression"]
            if compression != "none":
                source = Unpacked(source, compression)
            head = sql_input.head_of(source)
            pipes = stack.enter_context(opened_pipes("input", "output"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sql-"))
            sample = Path(folder, "sample")
            select = sql_input.select_of(engine, form, head, sample, pipes.paths["input"])
            engine.close_in([pipes.paths["input"], pipes.paths["output"]])
            engine.rows(f"CREATE VIEW {identifier(TABLE)} AS {select}")
            kept = select if engine.scans(query) > 1 else ""
            out_files[0].set_metadata({"Content-Type": sql_run.TYPES[params["output"]]})
            work = sql_run.Work(engine, query, pipes, params["output"], kept)
            feeder = Feeder(source, head, pipes.taken("input_writer"))
            sql_run.run(work, feeder, pipes, out_files[0])
