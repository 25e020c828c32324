"""DuckDB, shut in: SQL of a query can reach the object and its output, and nothing else.

After :meth:`Engine.close_in` no file, network, extension or setting can be reached from SQL, and no
setting can be changed any more.  Nothing is written to disk: what needs more than the memory limit
is an error.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

from packages import reason
from sql_check import TABLE, SqlError
from sql_errors import MOST_MESSAGE, Errors
from sql_syntax import MOST_KNOWN, MOST_KNOWN_CHARACTERS, Last, Syntax

try:
    import duckdb
except ImportError:
    # The image without the package answers each run with the reason, not with a failed import.
    duckdb = None
# DuckDB looks for pandas, which the image does not have, at each value that it is given: a hundred
# times in a part of a query.  So the search ends at once.
sys.modules.setdefault("pandas", None)

MOST_THREADS = 2
_SETTINGS = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "true",
    # Names of Python variables are no tables.
    "python_enable_replacements": "false",
    # Without a folder nothing is written when memory runs out.
    "temp_directory": "",
}
#: So begin the names of the functions that read the object.
_SCANS = ("READ_", "ARROW_SCAN")
#: So begins a part of the plan that runs more than once; its scans do, too.
_REPEATED = "REC"


class Engine:
    """One database in memory, for one query; a storlet has a class with its own texts.

    :cvar storlet: the storlet that runs.
    :cvar subject: the start of its messages.
    :cvar advice: a change of the run that needs less memory.
    :ivar threads: of the database, and of the sessions that a run may have.
    """

    storlet = "std:sql"
    subject = "query"
    advice = "group by fewer values, sort with a LIMIT, read fewer columns, or "
    #: The columns of queries, by the SELECT of their table and the query.
    _known_columns: ClassVar = Last()

    def __init__(
        self,
        memory_mib: int,
        most_threads: int = MOST_THREADS,
        *,
        few_rows_wait: bool = False,
        database: Any = None,
    ) -> None:
        """
        :param few_rows_wait: for an output whose reader needs few rows at a time.
        :param database: a ``kept_database.Database`` in place of a new one.
        """
        if duckdb is None:
            raise SqlError(reason(self.storlet, "duckdb"))
        self.threads = min(most_threads, len(os.sched_getaffinity(0)))
        limits = {"memory_limit": f"{memory_mib}MiB", "threads": str(self.threads)}
        #: The errors of the database, as the run reports them.
        self.errors = Errors(self.subject, self.advice, memory_mib)
        self._few_rows_wait = few_rows_wait
        self._table = ""
        self._database = database
        if database is not None:
            self._connection = database.session()
            return
        self._connection = duckdb.connect(":memory:", config=_SETTINGS | limits)
        self._begin_session()

    def session(self) -> Engine:
        """Another session of the database, for another thread; made before :meth:`close_in`."""
        made = copy.copy(self)
        made.errors = copy.copy(self.errors)
        made._connection = self.cursor()
        made._begin_session()
        return made

    def cursor(self) -> Any:
        """Another connection to the database."""
        return self._connection.cursor()

    @property
    def syntax(self) -> Syntax:
        """The syntax of queries, which needs no table."""
        return Syntax(self.rows)

    def _begin_session(self) -> None:
        """The settings that each session has of its own."""
        # The zone of the node is no property of the result.
        self.rows("SET TimeZone = 'UTC'")
        # The engine would print the progress of a query of more than two seconds.
        self.rows("SET enable_progress_bar = false")
        if self._few_rows_wait:
            # The engine counts rows that wait for their reader without the bytes of long values:
            # its default of 1 MB is 800 MB of values of 20 kB.
            self.rows("SET streaming_buffer_size = '1KB'")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._connection.close()

    def rows(self, statement: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement of ours.

        :raises SqlError: DuckDB refuses it.
        """
        try:
            return list(self._connection.execute(statement, values or []).fetchall())
        except duckdb.Error as error:
            raise self.errors.explained(error, 0) from None

    def type_of(self, text: str) -> Any:
        """A type, with its parts, by its name in SQL.

        :raises SqlError: it is none.
        """
        try:
            return duckdb.sqltype(text)
        except duckdb.Error as error:
            raise self.errors.explained(error, 0) from None

    def type_of_column(self, column: str, text: str) -> Any:
        """The type of a column of a result, with its parts, by its name in SQL.

        :raises SqlError: the name cannot be read, such as that of a ``row()`` without field names.
        """
        try:
            return self.type_of(text)
        except SqlError:
            shown = " ".join(text.split())[:MOST_MESSAGE]
            raise SqlError(
                f"{self.subject}: column {column!r}: this output has no exact form of {shown}:"
                " CAST it AS VARCHAR"
            ) from None

    def register(self, file_system: Any) -> None:
        """Give the engine a file system of ``fsspec``; its paths must be allowed, too."""
        self._connection.register_filesystem(file_system)

    def use_one_thread(self) -> None:
        """Write each row of a copy at once.

        With several threads the engine keeps the rows that one thread has read in order, and so all
        rows of a reader that has one thread.
        """
        self.rows("SET threads = 1")

    def register_table(self, name: str, table: Any) -> None:
        """Give the engine a table that has a C stream of Arrow.

        :raises SqlError: the engine refuses its schema.
        """
        try:
            self._connection.register(name, table)
        except duckdb.Error as error:
            raise self.errors.explained(error, 0) from None

    def close_in(self, paths: list[str]) -> None:
        """Leave ``paths`` as the only files that can be opened, for good."""
        if self._database is not None:
            self._database.require(paths)
            return
        allowed = ", ".join(map(literal, paths))
        self.rows(f"SET allowed_paths = [{allowed}]")
        self.rows("SET enable_external_access = false")
        self.rows("SET lock_configuration = true")

    def show(self, select: str, *, has_columns: bool = True) -> None:
        """Make the table of the query, or change it.

        :param select: reads the object.
        :param has_columns: its text alone decides on names and types of its columns.
        """
        # A temporary view ends with the session.
        self.rows(f"CREATE OR REPLACE TEMPORARY VIEW {identifier(TABLE)} AS {select}")
        self._table = select if has_columns else ""

    def keep(self, select: str) -> None:
        """Load the table of the query, which :meth:`show` has made, into memory."""
        table = identifier(TABLE)
        self.rows(f"DROP VIEW {table}")
        self.rows(f"CREATE TABLE {table} AS {select}")
        self._table = ""

    def columns(self, query: str) -> list[tuple[str, str]]:
        """Names and types in SQL of the columns of a checked query.

        Those of many objects of one kind are the same.

        :raises SqlError: the query names unknown columns or functions, or has wrong types.
        """
        if not self._table:
            return self._read_columns(query)
        is_short = len(self._table) + len(query) <= MOST_KNOWN_CHARACTERS
        found = Engine._known_columns.get(
            (self._table, query),
            lambda: self._read_columns(query),
            lambda columns: is_short and len(columns) <= MOST_KNOWN,
        )
        return list(found)

    def _read_columns(self, query: str) -> list[tuple[str, str]]:
        try:
            rows = self._connection.execute(f"DESCRIBE (\n{query}\n)").fetchall()
        except duckdb.Error as error:
            raise self.errors.explained(error, 1, query) from None
        return [(str(row[0]), str(row[1])) for row in rows]

    def scans(self, query: str) -> int:
        """How often the plan of a checked query reads a file.

        :raises SqlError: the query names unknown columns or functions, or has wrong types.
        """
        try:
            plan = self._connection.execute(f"EXPLAIN (FORMAT json)\n{query}").fetchall()
        except duckdb.Error as error:
            raise self.errors.explained(error, 1, query) from None
        return _readers(json.loads(plan[-1][1]))

    def copy(self, query: str, path: str, options: str) -> None:
        """Write the result of a checked query.

        :raises SqlError: it failed.
        """
        statement = f"COPY (\n{query}\n) TO {literal(path)} ({options})"
        try:
            self._connection.execute(statement)
        except duckdb.Error as error:
            raise self.errors.explained(error, 1, query) from None

    def batches(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a checked query, up to ``count`` at a time, while it runs.

        :raises SqlError: it failed.
        """
        try:
            self._connection.execute(query)
            while rows := self._connection.fetchmany(count):
                yield rows
        except duckdb.Error as error:
            raise self.errors.explained(error, 0, query) from None
        finally:
            # Another statement ends this one, which holds its files if it was not read to its end.
            self.rows("SELECT NULL")

    def arrow_reader(self, query: str, rows: int) -> Any:
        """The ``pyarrow.lib.RecordBatchReader`` of the result, in batches of ``rows``.

        The query runs while they are read.

        :raises SqlError: DuckDB refuses it.
        """
        try:
            return self._connection.execute(query).to_arrow_reader(rows)
        except duckdb.Error as error:
            raise self.errors.explained(error, 0, query) from None

    def interrupt(self) -> None:
        """End the statement that another thread runs."""
        self._connection.interrupt()


def _readers(plan: Any) -> int:
    """The number of scans of files in a plan; one that is repeated counts twice."""
    count, todo, weight = 0, [plan], 1
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif isinstance(node, dict):
            facts = node.get("extra_info")
            function = facts.get("Function", "") if isinstance(facts, dict) else ""
            words = (str(node.get("name", "")), str(function))
            if str(node.get("name", "")).strip().upper().startswith(_REPEATED):
                weight = 2
            count += any(word.strip().upper().startswith(_SCANS) for word in words)
            todo += node.get("children") or []
    return count * weight


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def identifier(text: str) -> str:
    """A name in SQL."""
    return '"' + text.replace('"', '""') + '"'
