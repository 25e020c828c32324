"""One SELECT over one object, which streams through a pipe into the engine.

The result streams through another one out of it, so neither is kept whole.  A query that reads the
table more than once needs it in memory.

Modules that only some formats or outputs need are imported where they are needed: a new worker
compiles each one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import sql_run
from sql_check import SqlError
from sql_engine import Engine
from sql_pipes import Pipes, opened_pipes
from sql_table import NOT_PIPED, Table


def run(
    kind: type[Engine],
    params: dict[str, str],
    target: Any,
    opened: Callable[[Engine, Pipes], Table],
) -> None:
    """Run the query of ``params``.

    :param opened: gives the object for the engine and the pipes ``input`` and ``output``.
    :raises SqlError: with all faults of the parameters, or of the object.
    """
    output, memory_mib = params["output"], int(params["memory-mib"])
    with ExitStack() as stack:
        if output == sql_run.PARTIAL and params.get("format") not in NOT_PIPED:
            import kept_database

            # There are more parts, each of which starts soon after another one.
            database = stack.enter_context(kept_database.opened(kind, memory_mib))
            engine = stack.enter_context(kind(memory_mib, database=database))
            pipes = stack.enter_context(opened_pipes("input", "output", place=database.place))
        else:
            database, (engine, pipes) = None, _own(stack, kind, params)
        query = engine.syntax.checked(params["query"])
        table = opened(engine, pipes)
        if database is not None and not (table.is_piped and database.allows(engine, query)):
            engine, pipes = _own(stack, kind, params)
            table.move(engine, pipes)
        stack.callback(table.close)
        target.set_metadata({"Content-Type": sql_run.TYPES[output]})
        kept = ""
        if output != sql_run.PARTIAL:
            table.open(query)
            kept = table.kept() if engine.scans(query) > 1 else ""
        elif table.has_no_rows():
            target.write(_without_rows(table, query))
            return
        else:
            import sql_partial

            table.open(query)
            missing = table.completed(query)
            header, plan = sql_partial.split(engine, query, missing, table.given)
            target.write(header.line())
            query = plan.split
        work = sql_run.Work(engine, query, pipes, output, kept)
        sql_run.run(work, table.feeder(query), pipes, target)
        table.require_all()


def _own(stack: ExitStack, kind: type[Engine], params: dict[str, str]) -> tuple[Engine, Pipes]:
    """An engine with a database of its own, and its pipes."""
    few = params["output"] == sql_run.ARROW
    engine = stack.enter_context(kind(int(params["memory-mib"]), few_rows_wait=few))
    return engine, stack.enter_context(opened_pipes("input", "output"))


def _without_rows(table: Table, query: str) -> bytes:
    """The line of the header of an object without rows.

    Its columns are texts, which the query may not fit.
    """
    import sql_partial

    try:
        table.open(query)
        header = replace(sql_partial.split(table.engine, query)[0], has_rows=False)
    except SqlError:
        header = sql_partial.Header(query)
    return header.line()
