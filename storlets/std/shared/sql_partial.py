"""Partial results of a query over many objects: a line of JSON, then rows of CSV.

The line has the query, the columns that it reads and those of its result, each with its type.  All
partial results that are merged have the same types: a column that is a number in one object and a
text in another one is an error.  A ``NULL`` is no text: it is ``\\N`` without quotes, and each
value has quotes.  Rows have the text of each value in the engine, which it reads back without loss.

An object may lack keys that the query names (``missing_keys``).  Without the type of one its line
has no types of the result, which come from the other objects.  A key that all objects lack is an
error of the last merge.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from parameters import shown
from sql_check import TABLE, SqlError, folded_name
from sql_engine import Engine, identifier, literal
from sql_split import Columns, Plan, column_names, plan_of
from sql_syntax import once

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
_HINT = "give it one type for all objects by columns or types=text"
_OTHERS = (
    "the query reads other columns in one object than in another one: name the columns instead of *"
)
_SHOWN = 200
_BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Header:
    """The first line of a partial result.

    :ivar result: names and types of the columns of the result; none if they are not known.
    :ivar read: those of the columns of the object that the query reads, or that have a given type.
    :ivar kinds: the types of the columns of the rows.
    :ivar missing: the columns that the object lacks, each with the nearest one that it has.
    :ivar has_rows: the object has rows; without any, its types may be those of no value.
    """

    query: str
    result: tuple[tuple[str, str], ...] = ()
    read: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    has_rows: bool = False

    def line(self) -> bytes:
        """As the first line of a partial result."""
        return json.dumps({"std:sql": VERSION, **asdict(self)}).encode() + b"\n"


def split(
    engine: Engine,
    query: str,
    missing: Mapping[str, str] | None = None,
    given: Collection[str] = (),
) -> tuple[Header, Plan]:
    """The header, and the parts of a checked query over the table of one object.

    :param missing: the columns of the table that the object lacks, as of ``missing_keys.found``.
    :param given: the names of columns with a given type.
    :raises SqlError: the query cannot be split, or has a column whose type has no partial result.
    """
    missing = missing or {}
    table = engine.columns(f"SELECT * FROM {identifier(TABLE)}")  # noqa: S608
    facts = (*table, None, *missing.items(), None, *given)
    found: tuple[Header, Plan] = once(
        "split", query, facts, lambda: _split(engine, query, table, missing, given)
    )
    return found


def _split(
    engine: Engine, query: str, table: Columns, missing: Mapping[str, str], given: Collection[str]
) -> tuple[Header, Plan]:
    columns = engine.columns(query)
    names = [name for name, _ in table]
    plan = plan_of(engine, query, names, columns)
    if missing and plan.has_all:
        raise SqlError(
            f"query: the object has no key {shown(min(missing))}: with * over many objects, all"
            " of them have the same keys"
        )
    read = [each for each in table if each[0] in plan.used or each[0] in given]
    if not plan.has_all:
        read.sort()  # objects may have their columns in another order
    others = [name for name in names if name not in missing]
    lacked = tuple((name, nearest(name, others)) for name in sorted(missing))
    if not all(missing.values()):
        typed = tuple(each for each in read if missing.get(*each))
        return Header(query, read=typed, missing=lacked, has_rows=True), plan
    kinds = tuple(kind for _, kind in engine.columns(plan.split))
    wrong = [kind for kind in kinds if not _KEPT.fullmatch(kind)]
    if wrong:
        raise SqlError(
            f"query: a column of the type {wrong[0][:_SHOWN]} is refused over many objects: cast it"
            " to a text, or name its parts"
        )
    return Header(query, tuple(columns), tuple(read), kinds, lacked, has_rows=True), plan


def nearest(name: str, names: Sequence[str]) -> str:
    """The name that is most like ``name``; empty: there is none."""
    return next(iter(difflib.get_close_matches(name, names, 1)), "")


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
            _columns(document["missing"]),
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

    It has no result if no object has a row, or if none has all columns (:func:`completed`).

    :raises SqlError: they are of different queries, or have columns of different types.
    """
    queries = {header.query for header in headers}
    if len(queries) > 1:
        raise SqlError("the inputs are partial results of different queries")
    known = [header for header in headers if header.has_rows]
    if not known:
        return next((header for header in headers if header.result), headers[0])
    read = _common_columns(known)
    typed = [header for header in known if header.result]
    for header in typed:
        if replace(header, missing=()) != replace(typed[0], missing=()):
            raise SqlError(_OTHERS)
    first = typed[0] if typed else Header(known[0].query, read=read, has_rows=True)
    lacked = [dict(header.missing) for header in known]
    missing = tuple(
        (name, max(each[name] for each in lacked))
        for name in lacked[0]
        if all(name in each for each in lacked)
    )
    return replace(first, missing=missing)


def _common_columns(headers: Sequence[Header]) -> tuple[tuple[str, str], ...]:
    """The columns that any object has, each with the one type of all."""
    types: dict[str, tuple[str, str]] = {}
    for header in headers:
        for name, kind in header.read:
            first = types.setdefault(folded_name(name), (name, kind))
            if first[0] != name:
                raise SqlError(
                    f"the column {shown(first[0])} of one object is {shown(name)} in another one:"
                    " want one name, also in the case of letters"
                )
            if first[1] != kind:
                raise SqlError(
                    f"the column {shown(name)} is {first[1]} in one object and {kind} in another"
                    f" one: {_HINT}"
                )
    # A name that only some objects take for a column has another meaning in the others.
    listed = [
        {folded_name(name) for name, _ in (*header.read, *header.missing)} for header in headers
    ]
    if any(each != listed[0] for each in listed):
        raise SqlError(_OTHERS)
    return tuple(sorted(types.values()))


def completed(engine: Engine, header: Header) -> Header:
    """The header with the types of the result, where only all inputs together have all columns.

    :raises SqlError: the query cannot be split with these columns.
    """
    names = {folded_name(name) for name, _ in header.read}
    is_known = all(folded_name(name) in names for name, _ in header.missing)
    if header.result or not header.has_rows or not is_known:
        return header
    table = identifier(TABLE)
    columns = ", ".join(
        # The type is written by the engine: its text is of a partial result, so from a user.
        f"CAST(NULL AS {engine.type_of(kind)}) AS {identifier(name)}"
        for name, kind in header.read
    )
    engine.rows(f"CREATE TEMPORARY VIEW {table} AS SELECT {columns}")
    found, _ = split(engine, header.query)
    engine.rows(f"DROP VIEW {table}")
    return replace(header, result=found.result, kinds=found.kinds)


def require_result(header: Header) -> None:
    """Raise :class:`SqlError` if all objects together have no result."""
    if header.missing:
        texts = [
            shown(name) + (near and f" (the nearest one is {shown(near)})")
            for name, near in header.missing
        ]
        raise SqlError(f"no object has the key {', '.join(texts)}")
    if not header.result:
        raise SqlError("no object has a row, so the columns have no types: give types by columns")


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
