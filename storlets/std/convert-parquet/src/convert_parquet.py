"""Parquet into CSV, JSON lines, Arrow or records, with DuckDB shut in.

The input is seekable, and its rows stream.  A value that the output does not keep is an error with
the value, and never another value.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import converted
import parquet_object
import parquet_view
import sql_run
from engine_file import PATH
from sql_check import SqlError
from sql_pipes import opened_pipes


class ParquetEngine(converted.ConvertEngine):
    """The engine of this storlet."""

    storlet = "std:convert-parquet"


class ConvertParquet:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        if (params["output"] == converted.RECORDS) != bool(params["struct"]):
            raise SqlError("struct: describes output=records, such as: i4 id, s96 text: want both")
        with ExitStack() as stack:
            # The engine seeks and reads in two calls, between which another thread could seek.
            few = params["output"] == sql_run.ARROW
            engine = stack.enter_context(
                ParquetEngine(int(params["memory-mib"]), most_threads=1, few_rows_wait=few)
            )
            pipes = stack.enter_context(opened_pipes("output"))
            footer = parquet_object.register(engine, in_files[0])
            engine.close_in([PATH, pipes.paths["output"]])
            parquet_view.create_view(engine, footer)
            columns = converted.columns_of(engine)
            converted.write(engine, columns, params, pipes, None, out_files[0])
