"""One SELECT over an object of Parquet, with DuckDB shut in.

The input is seekable: of the object only the footer and the column chunks are read that the query
needs.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import parquet_object
import parquet_view
import sql_partial
import sql_run
from engine_file import PATH
from sql_engine import Engine
from sql_pipes import opened_pipes


class ParquetEngine(Engine):
    """The engine of this storlet."""

    storlet = "std:sql-parquet"


class SqlParquet:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        output, target = params["output"], out_files[0]
        with ExitStack() as stack:
            # The engine seeks and reads in two calls, between which another thread could seek.
            few = output == sql_run.ARROW
            engine = stack.enter_context(
                ParquetEngine(int(params["memory-mib"]), most_threads=1, few_rows_wait=few)
            )
            query = engine.syntax.checked(params["query"])
            pipes = stack.enter_context(opened_pipes("output"))
            footer = parquet_object.register(engine, in_files[0])
            engine.close_in([PATH, pipes.paths["output"]])
            parquet_view.create_view(engine, footer)
            engine.scans(query)
            target.set_metadata({"Content-Type": sql_run.TYPES[output]})
            if output == sql_run.PARTIAL:
                header, plan = sql_partial.split(engine, query)
                target.write(header.line())
                query = plan.split
            work = sql_run.Work(engine, query, pipes, output, "")
            sql_run.run(work, None, pipes, target)
