"""The result of a query as a stream of Arrow's IPC format, one batch after the other.

DuckDB gives batches of a chosen size to ``pyarrow`` only, which is too large for the image.  All
that it needs of it is one function, which takes the address of a C stream: a stand-in has it, and
``nanoarrow`` writes the batches of this stream.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from packages import loaded
from sql_check import SqlError
from sql_engine import Engine, identifier, literal

#: Rows of a batch, and values of one with many columns: up to three batches are in memory.
BATCH_ROWS = 8192
BATCH_VALUES = 1 << 18
PYARROW = "pyarrow"
#: Size of ``ArrowArrayStream`` of Arrow's C stream interface, which has five pointers.
STREAM_BYTES = 5 * struct.calcsize("P")
#: Types whose values have an infinity, which Arrow has not: its readers take it for a date.
_DATES = (
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
)
#: Types that the engine gives without loss, beside decimals and nested ones.
_EXACT = frozenset(
    {
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"),
        *("VARCHAR", "BLOB", "UUID", "JSON", "TIME", *_DATES),
    }
)


def require_package(engine: Engine) -> None:
    """Raise :class:`packages.PackageError` if the image has no package that writes the stream."""
    loaded(f"{engine.storlet} with output=arrow", "nanoarrow")


def write(engine: Engine, query: str, descriptor: int) -> None:
    """Write the result of a checked query, and close the descriptor.

    The mark of the end is written only after the whole result.

    :raises SqlError: the query failed, or Arrow cannot keep its columns.
    """
    # An image without the package answers only the runs that need it with an error.
    from nanoarrow._utils import NanoarrowException
    from nanoarrow.ipc import StreamWriter

    with open(descriptor, "wb", buffering=0) as target:
        kept, width = checked(engine, query)
        rows = max(min(BATCH_ROWS, BATCH_VALUES // width), 1)
        with _stand_in():
            stream = engine.arrow_reader(kept, rows)
        try:
            writer = StreamWriter.from_writable(target)
            writer.write_stream(stream)
            writer.close()
        except NanoarrowException as error:
            # Before the text of the engine is the name of the function that failed.
            text = str(error).partition("): ")[2] or str(error)
            raise engine.explained(OSError(text), 0, query) from None


class _Reader:
    """Stands for ``pyarrow.lib.RecordBatchReader``, and gives a stream of ``nanoarrow``."""

    @staticmethod
    def _import_from_c(address: int) -> Any:
        from ctypes import memmove

        from nanoarrow.c_array_stream import allocate_c_array_stream

        stream = allocate_c_array_stream()
        # The stream owns what the caller's structure points to, and the caller drops the latter.
        memmove(stream._addr(), address, STREAM_BYTES)
        return stream


@contextmanager
def _stand_in() -> Iterator[None]:
    """A ``pyarrow`` for the one call that imports it."""
    before = sys.modules.get(PYARROW)
    module: Any = ModuleType(PYARROW)
    module.lib = SimpleNamespace(RecordBatchReader=_Reader)
    sys.modules[PYARROW] = module
    try:
        yield
    finally:
        del sys.modules[PYARROW]
        if before is not None:
            sys.modules[PYARROW] = before


def checked(engine: Engine, query: str) -> tuple[str, int]:
    """The query with an error for each value that Arrow does not have, and its number of columns.

    :raises SqlError: a column has a type that the engine does not give without loss.
    """
    columns = engine.columns(query)
    # The query may give two columns the same name.
    names = [f"column{number}" for number in range(len(columns))]
    shown, is_same = [], True
    for name, (column, text) in zip(names, columns):
        kind = engine.type_of(text)
        if refused := _refused(kind):
            raise SqlError(
                f"{engine.subject}: column {column!r}: output=arrow has no exact form of"
                f" {refused}: CAST it AS VARCHAR"
            )
        value = name
        if infinite := _infinite(name, kind, 0):
            message = literal(
                f"column {column!r}: Arrow has no infinite dates: CAST it AS VARCHAR"
            )
            value = f"CASE WHEN coalesce({infinite}, false) THEN error({message}) ELSE {name} END"
            is_same = False
        shown.append(f"{value} AS {identifier(column)}")
    if not is_same:
        values, result = ", ".join(shown), ", ".join(names)
        query = f"SELECT {values} FROM ({query}\n) AS result({result})"  # noqa: S608
    return query, len(columns)


def _refused(kind: Any) -> str:
    """The first type in ``kind`` that is not exact, or nothing."""
    text = str(kind)
    if text in _EXACT or text.startswith("DECIMAL("):
        return ""
    if kind.id in ("list", "array"):
        return _refused(kind.children[0][1])
    if kind.id == "map" or (kind.id == "struct" and all(key for key, _ in kind.children)):
        return next(filter(None, (_refused(each) for _, each in kind.children)), "")
    return text


def _infinite(value: str, kind: Any, level: int) -> str:
    """The condition that ``value`` has an infinite date, or nothing if its type has no dates."""
    if str(kind) in _DATES:
        return f"isinf({value})"
    parts = []
    if kind.id in ("list", "array"):
        parts = [_any(value, kind.children[0][1], level)]
    elif kind.id == "map":
        (_, keys), (_, values) = kind.children
        parts = [
            _any(f"map_keys({value})", keys, level),
            _any(f"map_values({value})", values, level),
        ]
    elif kind.id == "struct":
        parts = [
            _infinite(f"struct_extract({value}, {literal(key)})", each, level)
            for key, each in kind.children
        ]
    return " OR ".join(filter(None, parts))


def _any(value: str, kind: Any, level: int) -> str:
    item = f"item{level}"
    inner = _infinite(item, kind, level + 1)
    return f"len(list_filter({value}, lambda {item}: {inner})) > 0" if inner else ""
