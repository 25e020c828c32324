"""The result of a query as a stream of Arrow's IPC format, one batch after the other.

DuckDB gives batches of a chosen size to ``pyarrow`` only, which is too large for the image.  All
that it needs of it is one function, which takes the address of a C stream: a stand-in has it, and
``nanoarrow`` writes the batches of this stream.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from absent_values import Absent, found
from arrow_zeros import Zeros
from packages import loaded
from sql_check import SqlError
from sql_engine import Engine, identifier, literal

#: Rows of a batch, and values of one with many columns: up to three batches are in memory.
BATCH_ROWS = 8192
BATCH_VALUES = 1 << 18
#: Rows of a batch with a column whose values have any size: 64 MiB of rows of 1 MiB.
LONG_ROWS = 64
#: Small batches are written together: each has several parts.
BUFFER_BYTES = 1 << 16
PYARROW = "pyarrow"
_DATES = frozenset(
    {
        *("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
        *("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    }
)
#: Types that the engine gives without loss, in values of at most 36 bytes, beside decimals.
_SHORT = frozenset(
    {
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"),
        *("UUID", "TIME", *_DATES),
    }
)
_LONG = frozenset({"VARCHAR", "BLOB", "JSON"})


#: Values that Arrow does not have: its readers take each for another one.
_ABSENT = (
    Absent("infinite dates", _DATES, "isinf({})"),
    Absent("time of 24:00", frozenset({"TIME"}), "{} = TIME '24:00:00'"),
)


def require_package(engine: Engine) -> None:
    """Raise :class:`packages.PackageError` if the image has no package that writes the stream."""
    # A package without this part is another one, or is broken.
    loaded(f"{engine.storlet} with output=arrow", "nanoarrow.ipc")


def write(engine: Engine, query: str, descriptor: int) -> None:
    """Write the result of a checked query, and close the descriptor.

    The mark of the end is written only after the whole result.

    :raises SqlError: the query failed, or Arrow cannot keep its columns.
    """
    with open(descriptor, "wb", buffering=BUFFER_BYTES) as target:
        # An image without the package answers only the runs that need it with an error.  The
        # descriptor is closed after a failed import, too: its reader waits for that.
        from nanoarrow.c_array_stream import CArrayStream
        from nanoarrow.ipc import StreamWriter

        kept, rows = checked(engine, query)
        with _stand_in():
            stream = engine.arrow_reader(kept, rows)
        writer = StreamWriter.from_writable(target)
        schema = stream.get_schema()
        writer.write_stream(CArrayStream.from_c_arrays([], schema))
        zeros = Zeros.of(schema)
        try:
            for batch in _batches(stream, schema):
                zeros.write(batch)
                writer.write_array(batch)
        except OSError as error:
            raise engine.errors.explained(error, 0, query) from None
        writer.close()


class _Stream(ctypes.Structure):
    """``ArrowArrayStream`` of Arrow's C stream interface."""

    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def _batches(stream: Any, schema: Any) -> Iterator[Any]:
    """The batches of a stream.

    ``nanoarrow`` keeps the interpreter's lock while the engine makes a batch.  The thread that
    writes the object for the engine needs it, so that would never end.  ``ctypes`` releases it.

    :raises OSError: the query failed.
    """
    from nanoarrow.c_array import allocate_c_array

    address = stream._addr()
    raw = _Stream.from_address(address)
    while True:
        batch = allocate_c_array(schema)
        if raw.get_next(address, batch._addr()):
            raise OSError((raw.get_last_error(address) or b"").decode(errors="replace"))
        if not batch.is_valid():
            return
        yield batch


class _Reader:
    """Stands for ``pyarrow.lib.RecordBatchReader``, and gives a stream of ``nanoarrow``."""

    @staticmethod
    def _import_from_c(address: int) -> Any:
        from nanoarrow.c_array_stream import allocate_c_array_stream

        stream = allocate_c_array_stream()
        # The stream owns what the caller's structure points to, and the caller drops the latter.
        ctypes.memmove(stream._addr(), address, ctypes.sizeof(_Stream))
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
    """The query with an error for each value that Arrow does not have, and the rows of a batch.

    :raises SqlError: a column has a type that the engine does not give without loss.
    """
    columns = [(name, engine.type_of_column(name, text)) for name, text in engine.columns(query)]
    # The query may give two columns the same name.
    names = [f"column{number}" for number in range(len(columns))]
    shown, is_same = [], True
    for name, (column, kind) in zip(names, columns):
        if refused := _refused(kind):
            raise SqlError(
                f"{engine.subject}: column {column!r}: output=arrow has no exact form of"
                f" {refused}: CAST it AS VARCHAR"
            )
        value = name
        if cases := _cases(name, column, kind):
            value = f"CASE {cases} ELSE {name} END"
            is_same = False
        shown.append(f"{value} AS {identifier(column)}")
    if not is_same:
        values, result = ", ".join(shown), ", ".join(names)
        query = f"SELECT {values} FROM ({query}\n) AS result({result})"  # noqa: S608
    most = BATCH_ROWS if all(_is_short(kind) for _, kind in columns) else LONG_ROWS
    return query, max(min(most, BATCH_VALUES // len(columns)), 1)


def _is_short(kind: Any) -> bool:
    """Whether each value of the type has a few bytes, and is exact."""
    return str(kind) in _SHORT or str(kind).startswith("DECIMAL(")


def _refused(kind: Any) -> str:
    """The first type in ``kind`` that is not exact, or nothing."""
    text = str(kind)
    if text in _LONG or _is_short(kind):
        return ""
    if kind.id in ("list", "array"):
        return _refused(kind.children[0][1])
    if kind.id == "map" or (kind.id == "struct" and all(key for key, _ in kind.children)):
        return next(filter(None, (_refused(each) for _, each in kind.children)), "")
    return text


def _cases(name: str, column: str, kind: Any) -> str:
    """The cases of SQL with an error for the values of a column that Arrow does not have."""
    cases = []
    for absent in _ABSENT:
        if condition := found(absent, name, kind):
            message = literal(f"column {column!r}: Arrow has no {absent.name}: CAST it AS VARCHAR")
            cases.append(f"WHEN coalesce({condition}, false) THEN error({message})")
    return " ".join(cases)
