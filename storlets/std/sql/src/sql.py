"""One SELECT over CSV, JSON, records, Arrow or log lines, with DuckDB shut in."""

from __future__ import annotations

from typing import Any

import packed
import sql_query
import sql_run
from sql_check import SqlError
from sql_engine import Engine
from sql_pipes import Pipes
from sql_table import LOGS, RECORDS, Table

#: Formats whose lines declare no columns, so the parameters of types have no meaning.
TYPED = (RECORDS, sql_run.ARROW, *LOGS)


class Sql:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        require_sense(params)

        def opened(engine: Engine, pipes: Pipes) -> Table:
            is_text = params["format"] != RECORDS
            source = packed.opened(in_files[0], params["compression"], is_text=is_text)
            if params["format"] == "json":
                from json_documents import AsLines, path_of

                source = AsLines(source, path_of(params["rows"]))
            return Table(engine, pipes, source, params)

        sql_query.run(Engine, params, out_files[0], opened)


def require_sense(params: dict[str, str]) -> None:
    """Raise :class:`SqlError` for parameters that exclude each other."""
    form, faults = params["format"], []
    if form == RECORDS and not params["struct"]:
        faults.append("struct: is missing: records need one, such as: i4 id, s96 text")
    if form != "json" and params["rows"]:
        faults.append("rows: is for format=json only")
    if form != RECORDS and params["struct"]:
        faults.append("struct: is for format=records only")
    if form in TYPED and (params["columns"] or params["types"] == "text"):
        faults.append(f"columns and types: are for CSV and JSON: {form} has types of its own")
    if faults:
        raise SqlError("; ".join(faults))
