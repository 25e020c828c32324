"""The table of an object of Parquet.

No value of it is another one than that of the object: decimals that the engine cannot read are
refused, and so are the nanoseconds of timestamps in UTC, for which the engine has no type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import column_names
from absent_values import Absent, found
from engine_file import PATH
from parquet_object import TOO_WIDE, Footer, is_timestamp
from sql_check import TABLE, SqlError
from sql_engine import Engine, identifier, literal
from sql_errors import OBJECT
from sql_run import with_type

#: The type of local timestamps, as which the engine reads those in UTC.
_LOCAL = re.compile("TIMESTAMP_NS")
_ABSENT = Absent("nanoseconds", frozenset({"TIMESTAMP_NS"}), "epoch_ns({}) % 1000 <> 0")
_SCHEMA = (
    "SELECT name, num_children, coalesce(logical_type, '') FROM"  # noqa: S608
    f" parquet_schema({literal(PATH)})"
)


class Column(NamedTuple):
    """A column and the logical types in it."""

    name: str
    logical_types: list[str]


def create_view(engine: Engine, footer: Footer) -> None:
    """Make the registered object the table of the engine.

    :param footer: that of the object.
    :raises SqlError: it is no Parquet, or the engine reads columns or values as others.
    """
    select = f"SELECT * FROM read_parquet({literal(PATH)})"  # noqa: S608
    try:
        engine.rows(f"CREATE VIEW {identifier(TABLE)} AS {select}")
    except SqlError as error:
        raise SqlError(f"the object is no valid Parquet: {error}") from None
    wide = engine.rows(
        f"SELECT name FROM parquet_schema({literal(PATH)}) WHERE {TOO_WIDE} LIMIT 1"  # noqa: S608
    )
    if wide:
        raise SqlError(f"{OBJECT}: column {wide[0][0]}: decimals of over 38 digits are refused")
    columns = list(_top_level(iter(engine.rows(_SCHEMA))))
    kinds = engine.columns(select)
    column_names.require_own([column.name for column in columns], [name for name, _ in kinds])
    replaced = [
        f"{_in_utc(engine, name, kind)} AS {identifier(name)}"
        for (name, kind), is_in_utc in zip(kinds, _are_in_utc(columns, footer), strict=True)
        if is_in_utc
    ]
    if replaced:
        engine.rows(
            f"CREATE OR REPLACE VIEW {identifier(TABLE)} AS"
            f" {select.replace('*', '* REPLACE (' + ', '.join(replaced) + ')', 1)}"
        )


def _top_level(rows: Iterator[tuple[Any, ...]]) -> Iterator[Column]:
    """The columns, which are the children of the first element."""
    _, count, _ = next(rows)
    for _ in range(count or 0):
        name, left, kind = next(rows)
        kinds = [kind]
        while left:
            _, below, kind = next(rows)
            left += (below or 0) - 1
            kinds.append(kind)
        yield Column(name, kinds)


def _are_in_utc(columns: Sequence[Column], footer: Footer) -> list[bool]:
    """Whether each column has timestamps in UTC that the engine reads as local ones."""
    given = iter([each.is_in_utc for each in footer.types if each.is_timestamp])
    flags = []
    for column in columns:
        own = {next(given) for kind in column.logical_types if is_timestamp(kind)}
        if len(own) > 1:
            raise SqlError(
                f"{OBJECT}: column {column.name!r}: has timestamps with nanoseconds in UTC and"
                " local ones"
            )
        flags.append(own == {True})
    return flags


def _in_utc(engine: Engine, name: str, kind: str) -> str:
    """A column in UTC, with an error for a value that has nanoseconds."""
    parts, column = engine.type_of_column(name, kind), identifier(name)
    condition = found(_ABSENT, column, parts)
    text = literal(f"{OBJECT}: column {name!r}: has {_ABSENT.name}, in UTC there are microseconds")
    cast = with_type(parts, _LOCAL, lambda _: "TIMESTAMP WITH TIME ZONE")
    return (
        f"CASE WHEN coalesce({condition}, false) THEN error({text})"
        f" ELSE CAST({column} AS {cast}) END"
    )
