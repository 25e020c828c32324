"""The run of a query: the engine in a thread, its output through a pipe to the main thread.

A result is never kept whole, and no thread outlives the run, also after an error.
"""

from __future__ import annotations

import threading
from typing import Any

import arrow_output
from sql_check import TABLE
from sql_engine import Engine, identifier
from sql_pipes import Feeder, Pipes

ARROW = "arrow"
#: A part of the result of a query over many objects (``sql_partial``).
PARTIAL = "partial"
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    ARROW: "application/vnd.apache.arrow.stream",
    PARTIAL: "application/x-storlet-sql-partial",
}
#: Rows of a group of Parquet, which the engine keeps in memory.
GROUP_ROWS = 30_720
OPTIONS = {
    "csv": "FORMAT csv, HEADER true, USE_TMP_FILE false",
    "jsonl": "FORMAT json, USE_TMP_FILE false",
    "parquet": f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS}, USE_TMP_FILE false",
    PARTIAL: r"FORMAT csv, HEADER false, FORCE_QUOTE *, NULLSTR '\N', USE_TMP_FILE false",
}

#: A part of the names of both types that the writer of Parquet rounds, and Arrow does not have.
_LOST = "HUGEINT"


class Work(threading.Thread):
    """The query, in a thread of its own."""

    def __init__(self, engine: Engine, query: str, pipes: Pipes, output: str, kept: str) -> None:
        """``kept`` is the SELECT that reads the object, if it must be loaded into memory first.

        :raises packages.PackageError: the image does not have the package of the output.
        """
        super().__init__(name="sql-query", daemon=True)
        self._engine = engine
        self._query = query
        self._pipes = pipes
        self._output = output
        self._kept = kept
        if output == ARROW:
            arrow_output.require_package(engine)
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            if self._kept:
                table = identifier(TABLE)
                self._engine.rows(f"DROP VIEW {table}")
                self._engine.rows(f"CREATE TABLE {table} AS {self._kept}")
            query = self._query
            if self._output in ("parquet", ARROW):
                query = with_decimals(self._engine, query)
            if self._output == ARROW:
                arrow_output.write(self._engine, query, self._pipes.taken("output_writer"))
            else:
                self._engine.copy(query, self._pipes.paths["output"], OPTIONS[self._output])
        except BaseException as error:  # raised in the main thread
            self.error = error
        finally:
            # The main thread sees the end of the output, and the feeder that no more is read.
            self._pipes.close("output_writer")
            self._pipes.close("input_reader")

    def end(self) -> None:
        """End the query: its writes fail, and its statement is interrupted."""
        self._pipes.close("output_reader")
        while self.is_alive():
            self._engine.interrupt()
            self.join(0.05)


def with_decimals(engine: Engine, query: str) -> str:
    """The query, with decimals in place of each ``HUGEINT``, the type of a sum of whole numbers.

    DuckDB's writer of Parquet makes a ``DOUBLE`` of it, and so rounds it.  In Arrow it declares 38
    digits, and gives more without an error.  A decimal is written as it is, and more are an error.

    :raises sql_check.SqlError: the engine refuses the query, or a column has a type without a name.
    """
    columns = engine.columns(query)
    types = [
        _kept_type(engine.type_of_column(name, kind)) if _LOST in kind else kind
        for name, kind in columns
    ]
    if types == [kind for _, kind in columns]:
        return query
    # The query may give two columns the same name.
    names = [f"column{number}" for number in range(len(columns))]
    shown = ", ".join(
        f"{name if kept == kind else f'CAST({name} AS {kept})'} AS {identifier(column)}"
        for name, kept, (column, kind) in zip(names, types, columns)
    )
    return f"SELECT {shown} FROM ({query}\n) AS result({', '.join(names)})"  # noqa: S608


def _kept_type(kind: Any) -> str:
    if kind.id in ("hugeint", "uhugeint"):
        return "DECIMAL(38,0)"
    if kind.id in ("list", "array"):
        size = kind.children[1][1] if kind.id == "array" else ""
        return f"{_kept_type(kind.children[0][1])}[{size}]"
    if kind.id == "map":
        return f"MAP({', '.join(_kept_type(each) for _, each in kind.children)})"
    if kind.id == "struct":
        fields = (f"{identifier(key)} {_kept_type(each)}" for key, each in kind.children)
        return f"STRUCT({', '.join(fields)})"
    return str(kind)


def run(work: Work, feeder: Feeder | None, pipes: Pipes, target: Any) -> None:
    """Run the query to its end, and write its output to ``target``."""
    if feeder is not None:
        feeder.start()
    try:
        work.start()
    except BaseException:
        pipes.close_all()
        if feeder is not None:
            feeder.join()
        raise
    try:
        for block in pipes.blocks():
            if feeder is not None:
                feeder.require_no_error()
            target.write(block)
    except BaseException:
        work.end()
        raise
    finally:
        work.join()
        if feeder is not None:
            feeder.join()
    if feeder is not None:
        feeder.require_no_error()
    if work.error is not None:
        raise work.error
