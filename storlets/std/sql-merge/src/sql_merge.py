"""Merges partial results of one query, which ``std:sql`` and ``std:sql-parquet`` make.

The query comes with the partial results.  Between the objects and the result there may be several
merges: all but the last one make a partial result again.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import kept_database
import sql_partial
import sql_run
from sql_engine import Engine
from sql_pipes import BLOCK_BYTES, Feeder, opened_pipes
from sql_split import plan_of


class MergeEngine(Engine):
    """The engine of this storlet."""

    storlet = "std:sql-merge"


class SqlMerge:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        is_last = params["merge-stage"] == "last"
        output, target = params["output"] if is_last else sql_run.PARTIAL, out_files[0]
        inputs = sql_partial.Inputs(in_files)
        header = sql_partial.common(inputs.headers)
        with ExitStack() as stack:
            few, memory_mib, kept = output == sql_run.ARROW, int(params["memory-mib"]), None
            if output == sql_run.PARTIAL:
                kept = stack.enter_context(kept_database.opened(MergeEngine, memory_mib))
            engine = MergeEngine(memory_mib, few_rows_wait=few, database=kept)
            engine = stack.enter_context(engine)
            query = engine.syntax.checked(header.query)
            if kept is not None and not kept.allows(engine, query):
                engine, kept = stack.enter_context(MergeEngine(memory_mib)), None
            place = kept.place if kept is not None else None
            pipes = stack.enter_context(opened_pipes("input", "output", place=place))
            engine.close_in([pipes.paths["input"], pipes.paths["output"]])
            header = sql_partial.completed(engine, header)
            target.set_metadata({"Content-Type": sql_run.TYPES[output]})
            if is_last:
                sql_partial.require_result(header)
            else:
                target.write(header.line())
            if not header.result:
                # Without types no row can be merged with another one yet.
                while rows := inputs.read(BLOCK_BYTES):
                    target.write(rows)
                return
            engine.show(sql_partial.table_of(header, pipes.paths["input"]))
            plan = plan_of(engine, query, [name for name, _ in header.read], header.result)
            part = plan.last if is_last else plan.inner
            sql_partial.require_types(engine, header, part, is_last=is_last)
            feeder = Feeder(inputs, inputs.read(BLOCK_BYTES), pipes.taken("input_writer"))
            work = sql_run.Work(engine, part, pipes, output, "")
            sql_run.run(work, feeder, pipes, target)
