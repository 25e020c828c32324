"""All rows of the engine's table as the output of a conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import record_output
import sql_run
from sql_check import TABLE
from sql_engine import Engine, identifier
from sql_errors import OBJECT
from sql_pipes import Feeder, Pipes
from table_outputs import select_for

RECORDS = "records"


class ConvertEngine(Engine):
    """There is no query of a user."""

    storlet = "std:convert"
    subject = OBJECT
    advice = ""


def columns_of(engine: Engine) -> list[tuple[str, str]]:
    """The names and types of the table's columns."""
    rows = engine.rows(f"DESCRIBE {identifier(TABLE)}")
    return [(str(row[0]), str(row[1])) for row in rows]


def write(  # noqa: PLR0913  the parts of a run
    engine: Engine,
    columns: Sequence[tuple[str, str]],
    params: dict[str, str],
    pipes: Pipes,
    feeder: Feeder | None,
    target: Any,
) -> None:
    """Write the rows to ``target``, the output of the run.

    :param columns: those of the table.
    :param params: the parameters ``output`` and ``struct``.
    :param feeder: writes the object into the engine's pipe, if it reads one.
    :raises SqlError: the output does not keep a value.
    """
    output, table, sink = params["output"], identifier(TABLE), target
    if output == RECORDS:
        sink = record_output.FromLines(target, params["struct"], columns)
        query, form, kind = sink.query(engine, table), sql_run.JSON_LINES, record_output.TYPE
    else:
        query, form = select_for(engine, output, table, columns), output
        kind = sql_run.TYPES[output]
    target.set_metadata({"Content-Type": kind})
    sql_run.run(sql_run.Work(engine, query, pipes, form, ""), feeder, pipes, sink)
    if output == RECORDS:
        sink.finish()
