"""The run of a query: the engine in a thread, its output through a pipe to the main thread.

A result is never kept whole, and no thread outlives the run, also after an error.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from sql_engine import Engine, identifier
from sql_pipes import Feeder, Pipes

ARROW, JSON_LINES = "arrow", "jsonl"
#: A part of the result of a query over many objects (``sql_partial``).
PARTIAL = "partial"
TYPES = {
    "csv": "text/csv; charset=utf-8",
    JSON_LINES: "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    ARROW: "application/vnd.apache.arrow.stream",
    PARTIAL: "application/x-storlet-sql-partial",
}
#: Rows of a group of Parquet, which the engine keeps in memory.
GROUP_ROWS = 30_720
OPTIONS = {
    "csv": "FORMAT csv, HEADER true, USE_TMP_FILE false",
    JSON_LINES: "FORMAT json, USE_TMP_FILE false",
    "parquet": f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS}, USE_TMP_FILE false",
    PARTIAL: r"FORMAT csv, HEADER false, FORCE_QUOTE *, NULLSTR '\N', USE_TMP_FILE false",
}

#: So begins the type of a sum of decimals.
_SUMS = "DECIMAL(38,"
_LONG_SUM = "a decimal has more than 38 digits: CAST the values AS DOUBLE"
#: Both types that the writer of Parquet rounds, and Arrow does not have.
_HUGE = re.compile("U?HUGEINT")


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
            import arrow_output

            arrow_output.require_package(engine)
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            if self._kept:
                self._engine.keep(self._kept)
            query = self._checked()
            if self._output in ("parquet", ARROW):
                query = with_types(self._engine, query, _HUGE, _decimal_of)
            elif self._output == JSON_LINES:
                import json_numbers

                full, wider = json_numbers.FULL, json_numbers.wider
                query = with_types(self._engine, query, full, wider)
            if self._output == ARROW:
                import arrow_output

                arrow_output.write(self._engine, query, self._pipes.taken("output_writer"))
            else:
                self._engine.copy(query, self._pipes.paths["output"], OPTIONS[self._output])
        except BaseException as error:  # raised in the main thread
            self.error = error
        finally:
            # The main thread sees the end of the output, and the feeder that no more is read.
            self._pipes.close("output_writer")
            self._pipes.close("input_reader")

    def _checked(self) -> str:
        """The query with an error for each value that the output would change.

        :raises sql_check.SqlError: the engine refuses the query.
        """
        kinds = [kind for _, kind in self._engine.columns(self._query)]
        has_json = self._output == JSON_LINES and any("JSON" in kind for kind in kinds)
        if not has_json and not any(_SUMS in kind for kind in kinds):
            return self._query
        import absent_values

        faults = dict.fromkeys(absent_values.long_decimals(kinds), _LONG_SUM)
        if has_json:
            import json_numbers

            faults[json_numbers.ROUNDED] = json_numbers.FAULT
        return absent_values.checked(self._engine, self._query, faults)

    def end(self) -> None:
        """End the query: its writes fail, and its statement is interrupted."""
        self._pipes.close("output_reader")
        while self.is_alive():
            self._engine.interrupt()
            self.join(0.05)


def with_types(
    engine: Engine, query: str, replaced: re.Pattern[str], change: Callable[[str], str]
) -> str:
    """The query with casts of columns to other types at any level.

    :param replaced: matches the whole name of a type that is replaced.
    :param change: gives the type in place of it.
    :raises sql_check.SqlError: the engine refuses the query, a column has a type without a name, or
        there is no other type.
    """
    columns = engine.columns(query)
    types = [
        with_type(engine.type_of_column(name, kind), replaced, change)
        if replaced.search(kind)
        else kind
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


def with_type(kind: Any, replaced: re.Pattern[str], change: Callable[[str], str]) -> str:
    """The type with others in place of those that ``replaced`` matches, at any level."""
    if replaced.fullmatch(str(kind)):
        return change(str(kind))
    parts = kind.children if kind.id in ("list", "array", "map", "struct") else []
    if kind.id in ("list", "array"):
        size = parts[1][1] if kind.id == "array" else ""
        return f"{with_type(parts[0][1], replaced, change)}[{size}]"
    if kind.id == "map":
        return f"MAP({', '.join(with_type(each, replaced, change) for _, each in parts)})"
    if kind.id == "struct":
        fields = (f"{identifier(key)} {with_type(each, replaced, change)}" for key, each in parts)
        return f"STRUCT({', '.join(fields)})"
    return str(kind)


def _decimal_of(_huge: str) -> str:
    """The type of a decimal for a whole number, such as a sum of whole numbers.

    DuckDB's writer of Parquet makes a ``DOUBLE`` of a ``HUGEINT``, and so rounds it.  In Arrow it
    declares 38 digits, and gives more without an error.  A decimal is written as it is, and more
    digits are an error.
    """
    return "DECIMAL(38,0)"


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
