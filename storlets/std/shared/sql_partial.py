"""Partial results of a query over many objects: a line of JSON, then rows of CSV.

The line has the query, the columns that it reads and those of its result, each with its type.  All
partial results that are merged have the same line, so each of them has the types that the others
have: a column that is a number in one object and a text in another one is an error.  A ``NULL`` is
no text: it is ``\\N`` without quotes, and each value has quotes.  Rows have the text of each value
in the engine, which it reads back without loss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from parameters import shown
from sql_check import TABLE, SqlError
from sql_engine import Engine, identifier, literal
from sql_split import Columns, Plan, column_names, plan_of

VERSION = 1
MOST_HEADER_BYTES = 4 << 20
#: A row has up to this many bytes, and the engine reads blocks of the second size.
MOST_ROW_BYTES = 4 << 20
BUFFER_BYTES = 8 << 20
#: Types whose text the engine reads back as the same value.
_KEPT = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\([0-9]+,[0-9]+\)|VARCHAR|JSON"
    r"|UUID|DATE|TIME|TIMESTAMP(_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE"
)
_WRONG = "is no partial result of std:sql or std:sql-parquet: these make one with output=partial"
_SHOWN = 200
_BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Header:
    """The first line of a partial result.

    :ivar result: names and types of the columns of the result; none if they are not known.
    :ivar read: those of the columns of the object that the query reads.
    :ivar kinds: the types of the columns of the rows.
    :ivar has_rows: the object has rows; without any, its types may be those of no value.
    """

    query: str
    result: tuple[tuple[str, str], ...] = ()
    read: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()
    has_rows: bool = False

    def line(self) -> bytes:
        """As the first line of a partial result."""
        return json.dumps({"std:sql": VERSION, **asdict(self)}).encode() + b"\n"


def split(engine: Engine, query: str) -> tuple[Header, Plan]:
    """The header, and the parts of a checked query over the table of one object.

    :raises SqlError: the query cannot be split, or has a column whose type has no partial result.
    """
    columns = engine.columns(query)
    table = engine.columns(f"SELECT * FROM {identifier(TABLE)}")  # noqa: S608
    plan = plan_of(engine, query, [name for name, _ in table], columns)
    kinds = tuple(kind for _, kind in engine.columns(plan.split))
    wrong = [kind for kind in kinds if not _KEPT.fullmatch(kind)]
    if wrong:
        raise SqlError(
            f"query: a column of the type {wrong[0][:_SHOWN]} is refused over many objects: cast it"
            " to a text, or name its parts"
        )
    read = tuple((name, kind) for name, kind in table if name in plan.used)
    return Header(query, tuple(columns), read, kinds, has_rows=True), plan


def parsed(line: bytes, number: int) -> Header:
    """The header of the input ``number``.

    :raises SqlError: it is none.
    """
    try:
        document = json.loads(line)
        header = Header(
            _text(document["query"]),
            _columns(document["result"]),
            _columns(document["read"]),
            tuple(_text(kind) for kind in document["kinds"]),
            has_rows=document["has_rows"] is True,
        )
        version = document["std:sql"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SqlError(f"input {number} {_WRONG}") from None
    if version != VERSION or not all(_KEPT.fullmatch(kind) for kind in header.kinds):
        raise SqlError(f"input {number} {_WRONG}, of version {VERSION}")
    return header


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _columns(value: Iterable[Sequence[object]]) -> tuple[tuple[str, str], ...]:
    return tuple((_text(name), _text(kind)) for name, kind in value)


def common(headers: Sequence[Header]) -> Header:
    """The header of all inputs together.

    :raises SqlError: they are of different queries, or have columns of different types.
    """
    queries = {header.query for header in headers}
    if len(queries) > 1:
        raise SqlError("the inputs are partial results of different queries")
    known = [header for header in headers if header.has_rows]
    first = (known or [header for header in headers if header.result] or list(headers))[0]
    for header in known:
        if header != first:
            raise SqlError(_difference(first, header))
    return replace(first, has_rows=bool(known))


def _difference(first: Header, other: Header) -> str:
    """The reason why two objects have no common result."""
    hint = "give it one type for all objects by columns or types=text"
    types = dict(other.read)
    for name, kind in first.read:
        if name in types and types[name] != kind:
            return f"the column {shown(name)} is {kind} in one object and {types[name]} in another one: {hint}"
    return f"the query reads other columns in one object than in another one: {hint}"


def table_of(header: Header, path: str) -> str:
    """The SELECT of the rows of partial results from a pipe."""
    columns = ", ".join(
        f"{literal(name)}: {literal(kind)}"
        for name, kind in zip(column_names(len(header.kinds)), header.kinds)
    )
    return (
        f"SELECT * FROM read_csv({literal(path)}, auto_detect=false, columns={{{columns}}},"  # noqa: S608
        " delim=',', quote='\"', escape='\"', header=false, nullstr='\\N', new_line='\\n',"
        " comment='', skip=0, allow_quoted_nulls=false,"
        f" max_line_size={MOST_ROW_BYTES}, buffer_size={BUFFER_BYTES})"
    )


def require_types(engine: Engine, header: Header, part: str, *, is_last: bool) -> None:
    """Raise :class:`SqlError` unless a merge has the types of the query over one object."""
    found = [kind for _, kind in engine.columns(part)]
    wanted = [kind for _, kind in header.result] if is_last else list(header.kinds)
    if found != wanted:
        raise SqlError(f"the merged columns are {found}, and those of an object {wanted}")


class Inputs:
    """The rows of several partial results, one after the other, as one file.

    :ivar headers: of all inputs.
    """

    def __init__(self, sources: Sequence[Any]) -> None:
        """:raises SqlError: an input does not begin with a header."""
        self.headers: list[Header] = []
        self._rests: list[bytes] = []
        self._sources = list(sources)
        for number, source in enumerate(sources, 1):
            data = b""
            while b"\n" not in data and len(data) < MOST_HEADER_BYTES:
                block = bytes(source.read(_BLOCK_BYTES))
                if not block:
                    break
                data += block
            line, _, rest = data.partition(b"\n")
            self.headers.append(parsed(line, number))
            self._rests.append(rest)

    def read(self, size: int) -> bytes:
        """Some bytes of rows, and none only at the end of the last input."""
        while self._sources:
            data, self._rests[0] = self._rests[0], b""
            data = data or bytes(self._sources[0].read(size))
            if data:
                return data
            del self._sources[0], self._rests[0]
        return b""
