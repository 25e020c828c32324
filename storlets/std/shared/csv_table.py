"""Rows that a storlet makes of another format, as CSV with declared types for the engine."""

from __future__ import annotations

from collections.abc import Sequence

from sql_engine import identifier, literal
from sql_input import BUFFER_BYTES, MOST_LINE_BYTES

#: Names and types in SQL.
Columns = Sequence[tuple[str, str]]


def head_of(columns: Columns) -> bytes:
    """The first line."""
    return ",".join(quoted(name) for name, _ in columns).encode() + b"\n"


def quoted(text: str) -> str:
    """A value of CSV that is never ``NULL``; the empty one without quotes is."""
    return '"' + text.replace('"', '""') + '"'


def select_of(columns: Columns, pipe: str) -> str:
    """The SELECT of the columns from ``pipe``."""
    declared = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns)
    shown = ", ".join(identifier(name) for name, _ in columns)
    return (
        f"SELECT {shown} FROM read_csv({literal(pipe)}, auto_detect=false, columns={{{declared}}},"  # noqa: S608
        " delim=',', quote='\"', escape='\"', header=true, new_line='\\n', comment='', skip=0,"
        f" allow_quoted_nulls=false, max_line_size={2 * MOST_LINE_BYTES + 4096},"
        f" buffer_size={BUFFER_BYTES})"
    )
