"""One query of S3's SelectObjectContent over Parquet, with DuckDB shut in.

The input is seekable, so that only the column chunks are read that the query needs.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import parquet_object
import select_parser
import select_run
from engine_file import PATH
from select_errors import SelectError
from select_frames import Frames
from select_parquet import schema_of, table_of
from select_request import ParquetInput, request_of
from select_schema import TABLE
from sql_engine import Engine, identifier


class ParquetEngine(Engine):
    """The engine of this storlet."""

    storlet = "std:s3-select-parquet"


class S3SelectParquet:
    """See the README."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        with (
            select_run.framed(out_files[0], "ParquetParsingError") as frames,
            ExitStack() as stack,
        ):
            _run(in_files[0], frames, params, stack)


def _run(source: Any, frames: Frames, params: dict[str, str], stack: ExitStack) -> None:
    request = request_of(params["request"])
    if not isinstance(request.source, ParquetInput):
        raise SelectError("InvalidDataSource", "CSV and JSON: use std:s3-select")
    if request.compression != "NONE":
        raise SelectError("InvalidCompressionFormat", "Parquet requires CompressionType NONE")
    query = select_parser.parsed(request.expression)
    if query.steps:
        raise SelectError("ParseInvalidPathComponent", "S3Object: a record of Parquet has no parts")
    # The engine seeks and reads in two calls, between which another thread could seek.
    engine = stack.enter_context(ParquetEngine(int(params["memory-mib"]), most_threads=1))

    def report() -> None:
        frames.progress(source.bytes_read, source.bytes_read)

    parquet_object.register(engine, source, report)
    engine.close_in([PATH])
    schema = schema_of(engine, query.alias)
    table = table_of(engine, request, schema)
    engine.rows(f"CREATE VIEW {identifier(TABLE)} AS {table}")
    statement = select_run.translated(query, schema, request)
    statement = select_run.checked(engine, statement, request)
    select_run.send(engine, statement.sql, frames.records)
    frames.end(source.bytes_read, source.bytes_read)
