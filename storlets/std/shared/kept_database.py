"""A closed database that several runs of a process use, one after the other.

The start of a database takes 20 ms of the processor and its end 7.  That is half of all else that a
part of a query over many objects needs.

Nothing of a run is left for the next one:

* A run has a session of its own, and its table is a temporary one of this session.
* The database is closed in before the first run (``sql_engine``).  The only files are three
  descriptors of fixed numbers (:class:`Slots`), which have no content between runs.  The engine
  keeps no content of files.
* A query has only functions whose value depends on nothing but their arguments.  Others could show
  a number that earlier runs have counted up, or set a state.  A query with one has a database of
  its own.
* An error ends the database, and so do :data:`MOST_RUNS`.

It has one thread: a process whose runs leave threads is replaced (``storlet_daemon.worker``), and
other parts use the other processors.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sql_check import nodes_of
from sql_engine import Engine
from sql_pipes import Place
from sql_syntax import once

MOST_RUNS = 200
_FILES = ("input", "output", "sample")


class Slots(Place):
    """A descriptor for each name, whose number is the same in all runs."""

    def __init__(self) -> None:
        # The engine resolves paths of files that have names, and so would allow these files.
        self._nothing = os.memfd_create("nothing", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(self._nothing, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._numbers = {name: os.dup(self._nothing) for name in _FILES}

    def adopt(self, name: str, descriptor: int) -> int:
        number = self._numbers[name]
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)
        return number

    def release(self, descriptor: int) -> None:
        if descriptor in self._numbers.values():
            os.dup2(self._nothing, descriptor, inheritable=False)
        else:
            super().release(descriptor)

    def paths(self) -> list[str]:
        """The paths of all of them."""
        return [self.path_of(number) for number in self._numbers.values()]

    def close(self) -> None:
        """Close them; there is no run."""
        for number in (self._nothing, *self._numbers.values()):
            os.close(number)


class Database:
    """One database, closed in; for one run at a time.

    :ivar place: of the files of a run.
    """

    #: Functions of their arguments in a new database, read once in a process: 20 ms.
    _pure: frozenset[str] = frozenset()

    def __init__(self, kind: type[Engine], memory_mib: int) -> None:
        """:raises SqlError: the image has no DuckDB."""
        self.memory_mib = memory_mib
        self.runs_left = MOST_RUNS
        self._engine = kind(memory_mib, most_threads=1)
        self.place = Slots()
        # For all sessions, none of which can change a setting.
        self._engine.rows("SET GLOBAL TimeZone = 'UTC'")
        self._engine.rows("SET enable_external_file_cache = false")
        Database._pure = Database._pure or _pure_functions(self._engine)
        self._engine.close_in(self.place.paths())

    def session(self) -> Any:
        """A connection of its own for a run."""
        return self._engine.cursor()

    def require(self, paths: Collection[str]) -> None:
        """Raise :class:`AssertionError` unless a run may have these files."""
        if not set(paths) <= set(self.place.paths()):
            raise AssertionError(f"a closed database cannot open {paths}")

    def allows(self, engine: Engine, query: str) -> bool:
        """Whether a checked query has only functions of their arguments."""
        return bool(once("pure", query, (), lambda: self._is_pure(engine.syntax.tree(query))))

    def _is_pure(self, tree: Any) -> bool:
        functions = (node for node in nodes_of(tree) if "function_name" in node)
        return all(
            str(node["function_name"]).lower() in self._pure
            and not node.get("schema")
            and not node.get("catalog")
            for node in functions
        )

    def close(self) -> None:
        """End it; there is no run."""
        self._engine.__exit__()
        self.place.close()


def _pure_functions(engine: Engine) -> frozenset[str]:
    rows = engine.rows(
        "SELECT lower(function_name) FROM duckdb_functions() GROUP BY 1"
        " HAVING bool_and(function_type IN ('scalar', 'aggregate')"
        " AND coalesce(stability, '') = 'CONSISTENT')"
    )
    return frozenset(name for (name,) in rows)


#: The database that no run uses, if there is one.
_idle: list[Database] = []


@contextmanager
def opened(kind: type[Engine], memory_mib: int) -> Iterator[Database]:
    """A database for one run, which is kept if the run succeeds.

    :raises SqlError: the image has no DuckDB.
    """
    database = _idle.pop() if _idle else None
    if database is not None and (database.memory_mib != memory_mib or not database.runs_left):
        database.close()
        database = None
    database = database or Database(kind, memory_mib)
    database.runs_left -= 1
    try:
        yield database
    except BaseException:
        database.close()
        raise
    _idle.append(database)


def close_idle() -> None:
    """End the database that is kept."""
    while _idle:
        _idle.pop().close()
