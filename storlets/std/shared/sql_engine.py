"""DuckDB, shut in: SQL of a query can reach the object and its output, and nothing else.

After :meth:`Engine.close_in` no file, network, extension or setting can be reached from SQL, and no
setting can be changed any more.  Nothing is written to disk: what needs more than the memory limit
is an error.
"""

from __future__ import annotations

import copy
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from packages import reason
from sql_check import MOST_QUERY_CHARACTERS, TABLE, SqlError, check, trimmed

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
_EXCERPT = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^", re.DOTALL)
_PATH = re.compile(r"(?:in file )?[\"']?(?:/proc/self/fd/\d+|object://input|/\S+/sample)[\"']?")
_CALL = re.compile(r"(\w+)\(")
#: Threads of the reader of CSV have begun at a line end that ends no row.
_PARALLEL = re.compile("parallel (csv|scan)", re.IGNORECASE)
#: The reader's error for a CR where it expects none.
_LINE_ENDS = re.compile("CSV Parser state machine reached an invalid state")
#: The number of a line in an error, which counts those that the reader has.
_LINE_NUMBER = re.compile(r" on Line: \d+")
#: The place in an error of the reader of JSON, which counts from 2.
_JSON_PLACE = re.compile(r"(Malformed JSON .* in (?:line|record/value)) (\d+)")
#: So begins the reason why a batch of Arrow is not read.
_BATCH = re.compile(r"arrow_scan: get_next failed\(\): (.*)", re.DOTALL)
#: So begins a message about a value of the object: the query is not wrong.
OBJECT = "the object"
_VALUE = re.compile(rf"{OBJECT}: column .*", re.DOTALL)
#: So begin the names of the functions that read the object.
_SCANS = ("READ_", "ARROW_SCAN")
#: So begins a part of the plan that runs more than once; its scans do, too.
_REPEATED = "REC"
_NO_MEMORY = "Out of Memory Error"
#: Bounds of what a process keeps: 3 MB.
_MOST_KNOWN = 100
_MOST_KNOWN_CHARACTERS = 30_000
_SHOWN = 60
_MOST_MESSAGE = 600


class _Last:
    """The last facts of a kind that a process has found: many runs have the same queries."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Any] = {}

    def get(
        self, key: tuple[Any, ...], find: Callable[[], Any], is_small: Callable[[Any], bool]
    ) -> Any:
        """The fact of ``key``, which nothing changes.

        :param is_small: whether a fact is kept.
        """
        if key in self._found:
            return self._found[key]
        fact = find()
        if is_small(fact):
            if len(self._found) >= _MOST_KNOWN:
                self._found.clear()
            self._found[key] = fact
        return fact


#: Facts about queries, by their kind, the query, and all else on which they depend.
_facts = _Last()


def once(kind: str, query: str, given: tuple[Any, ...], find: Callable[[], Any]) -> Any:
    """A fact about a query, which nothing changes; a process keeps some for its next runs.

    :param given: all else on which it depends.
    """
    is_small = len(query) <= _MOST_KNOWN_CHARACTERS and len(given) <= _MOST_KNOWN
    return _facts.get((kind, query, given), find, lambda _fact: is_small)


class Engine:
    """One database in memory, for one query; a storlet has a class with its own texts.

    :cvar storlet: the storlet that runs.
    :cvar subject: the begin of its messages.
    :cvar advice: a change of the run that needs less memory.
    :ivar threads: of the database, and of the sessions that a run may have.
    :ivar has_all_lines: each reader gets all lines of the object, so their numbers are right.
    """

    storlet = "std:sql"
    subject = "query"
    advice = "group by fewer values, sort with a LIMIT, read fewer columns, or "
    #: Those of DuckDB, read once in a process: that takes half of a small run.
    _aggregates: frozenset[str] = frozenset()
    #: Texts and syntax trees of queries, by the call that made them and its argument.
    _known: ClassVar = _Last()
    #: The columns of queries, by the SELECT of their table and the query.
    _known_columns: ClassVar = _Last()

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
        self.has_all_lines = True
        self._memory_mib = memory_mib
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
        made._connection = self.cursor()
        made._begin_session()
        return made

    def cursor(self) -> Any:
        """Another connection to the database."""
        return self._connection.cursor()

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
            raise self.explained(error, 0) from None

    def type_of(self, text: str) -> Any:
        """A type, with its parts, by its name in SQL.

        :raises SqlError: it is none.
        """
        try:
            return duckdb.sqltype(text)
        except duckdb.Error as error:
            raise self.explained(error, 0) from None

    def type_of_column(self, column: str, text: str) -> Any:
        """The type of a column of a result, with its parts, by its name in SQL.

        :raises SqlError: the name cannot be read, such as that of a ``row()`` without field names.
        """
        try:
            return self.type_of(text)
        except SqlError:
            shown = " ".join(text.split())[:_MOST_MESSAGE]
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
            raise self.explained(error, 0) from None

    def close_in(self, paths: list[str]) -> None:
        """Leave ``paths`` as the only files that can be opened, for good."""
        if self._database is not None:
            self._database.require(paths)
            return
        allowed = ", ".join(map(literal, paths))
        self.rows(f"SET allowed_paths = [{allowed}]")
        self.rows("SET enable_external_access = false")
        self.rows("SET lock_configuration = true")

    def checked(self, query: str, most_characters: int = MOST_QUERY_CHARACTERS) -> str:
        """The query as it may run.

        :raises SqlError: it is not one SELECT over the table.
        """
        kept = trimmed(query, most_characters)
        serialized = self._rewritten("json_serialize_sql(?::VARCHAR)", kept)
        once("check", kept, (), lambda: check(kept, serialized))
        return kept

    def tree(self, query: str) -> Any:
        """The syntax tree of a checked query, or of one of ours."""
        return json.loads(self._rewritten("json_serialize_sql(?::VARCHAR)", query))

    def text_of(self, tree: Any) -> str:
        """The SQL of a syntax tree.

        :raises SqlError: it has a constant that the engine does not write.
        """
        return self._rewritten("json_deserialize_sql(?::JSON)", json.dumps(tree))

    def _rewritten(self, call: str, text: str) -> str:
        """The text that a function of ours makes of ``text``, and of nothing else."""
        made: str = Engine._known.get(
            (call, text),
            lambda: str(self.rows(f"SELECT {call}", [text])[0][0]),
            lambda found: len(text) + len(found) <= _MOST_KNOWN_CHARACTERS,
        )
        return made

    def aggregates(self) -> frozenset[str]:
        """The names of all aggregates, and of the macros that use one; no query adds any."""
        if not Engine._aggregates:
            Engine._aggregates = self._read_aggregates()
        return Engine._aggregates

    def _read_aggregates(self) -> frozenset[str]:
        rows = self.rows(
            "SELECT function_name, function_type, macro_definition FROM duckdb_functions()"
            " WHERE function_type IN ('aggregate', 'macro')"
        )
        found = {"count_star"} | {name for name, kind, _ in rows if kind == "aggregate"}
        macros = {
            name: set(_CALL.findall(text or "")) for name, kind, text in rows if kind == "macro"
        }
        while more := {name for name, used in macros.items() if used & found} - found:
            found |= more
        return frozenset(found)

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
        is_short = len(self._table) + len(query) <= _MOST_KNOWN_CHARACTERS
        found = Engine._known_columns.get(
            (self._table, query),
            lambda: self._read_columns(query),
            lambda columns: is_short and len(columns) <= _MOST_KNOWN,
        )
        return list(found)

    def _read_columns(self, query: str) -> list[tuple[str, str]]:
        try:
            rows = self._connection.execute(f"DESCRIBE (\n{query}\n)").fetchall()
        except duckdb.Error as error:
            raise self.explained(error, 1, query) from None
        return [(str(row[0]), str(row[1])) for row in rows]

    def scans(self, query: str) -> int:
        """How often the plan of a checked query reads a file.

        :raises SqlError: the query names unknown columns or functions, or has wrong types.
        """
        try:
            plan = self._connection.execute(f"EXPLAIN (FORMAT json)\n{query}").fetchall()
        except duckdb.Error as error:
            raise self.explained(error, 1, query) from None
        return _readers(json.loads(plan[-1][1]))

    def copy(self, query: str, path: str, options: str) -> None:
        """Write the result of a checked query.

        :raises SqlError: it failed.
        """
        statement = f"COPY (\n{query}\n) TO {literal(path)} ({options})"
        try:
            self._connection.execute(statement)
        except duckdb.Error as error:
            raise self.explained(error, 1, query) from None

    def batches(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a checked query, up to ``count`` at a time, while it runs.

        :raises SqlError: it failed.
        """
        try:
            self._connection.execute(query)
            while rows := self._connection.fetchmany(count):
                yield rows
        except duckdb.Error as error:
            raise self.explained(error, 0, query) from None
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
            raise self.explained(error, 0, query) from None

    def interrupt(self) -> None:
        """End the statement that another thread runs."""
        self._connection.interrupt()

    def explained(self, error: Exception, lines: int, query: str = "") -> SqlError:
        """An error of DuckDB in one line; ``lines`` of the statement are before the query."""
        whole = str(error)
        text, where = whole, ""
        excerpt = _EXCERPT.search(whole)
        if excerpt is not None and query:
            text = whole[: excerpt.start()]
            line, shown, caret = int(excerpt[1]) - lines, excerpt[2], len(excerpt[3])
            near = shown[max(caret - len(f"LINE {excerpt[1]}: "), 0) :].strip()[:_SHOWN]
            where = f"line {line}, at {near!r}: " if near else f"line {line}: "
        # After an empty line follow the settings of the reader.
        text = _PATH.sub("the object", text.partition("\n\n")[0])
        text = " ".join(text.split())[:_MOST_MESSAGE]
        if not self.has_all_lines:
            text = _LINE_NUMBER.sub("", text)
        text = _JSON_PLACE.sub(lambda match: f"{match[1]} {int(match[2]) - 1}", text)
        if _LINE_ENDS.search(text):
            text = (
                "a CR without LF is outside of quotes, or some lines end with CR LF and others with"
                " LF (parallel=false reads these with one thread)"
            )
        value = _VALUE.search(text)
        if value is not None:
            return SqlError(value[0])
        batch = _BATCH.search(text)
        if batch is not None:
            return SqlError(f"{OBJECT} is no valid Arrow: a batch cannot be read: {batch[1]}")
        if _PARALLEL.search(text):
            text += " (parallel=false reads the CSV with one thread)"
        elif "CSV Error" in text or "JSON" in text:
            text += " (types=text reads all columns as text)"
        # A stream of Arrow has only the text of the error.
        if whole.startswith(_NO_MEMORY):
            return SqlError(
                f"{self.subject}: needs more memory than memory-mib={self._memory_mib}:"
                f" {self.advice}raise memory-mib ({text})"
            )
        subject = f"{self.subject}: " if query else ""
        return SqlError(f"{subject}{where}{text}")


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
