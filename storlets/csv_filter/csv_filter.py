"""Choose columns and rows of a CSV object, of a whole one or of one partition of it.

Parameters (all optional)::

    columns         names to keep, in the order wanted: name,city       default: all
    where           conditions joined by ';', all must hold:            default: every row
                    column<op>value, op one of  =  !=  <  <=  >  >=  ~
                    < <= > >= compare as numbers; ~ means "contains"
    header          the column names, where the input has no header line
    delimiter       one character                                       default: ,
    partition       first | later: the input is a part of an object (X-Storlet-Range)
    partition_bytes number of bytes of the input that belong to this partition

Partitions let many clients share one large object. The partition of the bytes ``s`` to ``e``
(exclusive) is requested with ``X-Storlet-Range: bytes=s-`` (or up to ``e`` plus the longest line),
``partition_bytes = e - s`` and ``partition = later``, or ``first`` when ``s`` is 0. A line belongs
to the partition that holds the byte before it, so that every line is in exactly one, at any cuts.
Later partitions need ``header``. A quoted line break is not allowed in a partition.
"""

from __future__ import annotations

import csv
import io
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

FLUSH_CHARACTERS = 64 * 1024

Predicate = Callable[[list[str]], bool]
CONDITION = re.compile(
    r"\s*(?P<column>[^=!<>~]+?)\s*(?P<operator>!=|<=|>=|=|<|>|~)\s*(?P<value>.*?)\s*", re.DOTALL
)
TEXT_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "~": operator.contains,
}
NUMBER_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class CsvFilter:
    """SELECT columns WHERE conditions, on the node that holds the object."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write the chosen columns of the chosen rows; raise ValueError on an invalid parameter."""
        lines = decoded(partition_lines(in_files[0], params))
        rows = csv.reader(lines, delimiter=params.get("delimiter", ","))
        header = column_names(rows, params)
        chosen = [position(header, name) for name in split(params.get("columns", ""))] or list(
            range(len(header))
        )
        predicates = [
            predicate(header, text) for text in params.get("where", "").split(";") if text.strip()
        ]
        matching = (row for row in rows if row and all(holds(row) for holds in predicates))
        kept = ([row[i] if i < len(row) else "" for i in chosen] for row in matching)
        out_files[0].set_metadata({"Content-Type": "text/csv; charset=utf-8"})
        head = (
            [[header[i] for i in chosen]] if header and params.get("partition") != "later" else []
        )
        write_rows(out_files[0], chain(head, kept), params.get("delimiter", ","))


def partition_lines(source: Any, params: dict[str, str]) -> Iterator[bytes]:
    """The lines of ``source`` in the requested partition; without ``partition``, all lines."""
    which = params.get("partition")
    if which not in (None, "first", "later"):
        raise ValueError(f"partition must be first or later, not {which!r}")
    limit = int(params["partition_bytes"]) if "partition_bytes" in params else None
    # A later partition starts inside a line, or directly after a line break that belongs to the
    # partition before it: in both cases the first line here belongs to that partition.
    offset = len(source.readline()) if which == "later" else 0
    # "<=": the line that begins at the very end still has the byte before it in this partition.
    while limit is None or offset <= limit:
        line = source.readline()
        if not line:
            return
        offset += len(line)
        yield line


def decoded(lines: Iterable[bytes]) -> Iterator[str]:
    """UTF-8 to text; bytes that are not UTF-8 survive the round trip unchanged."""
    for number, line in enumerate(lines):
        text = line.decode("utf-8", "surrogateescape")
        yield text.removeprefix("\ufeff") if number == 0 else text


def column_names(rows: Iterator[list[str]], params: dict[str, str]) -> list[str]:
    """The header of the parameter, or else the first row."""
    if "header" in params:
        return split(params["header"])
    if params.get("partition") == "later":
        raise ValueError("a later partition has no header line: give the parameter header")
    return next(rows, [])


def split(text: str) -> list[str]:
    """``"a, b"`` to ``["a", "b"]``; nothing to an empty list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def position(header: list[str], name: str) -> int:
    """Index of a column; raise ValueError for an unknown name."""
    if name not in header:
        raise ValueError(f"no column {name!r}; there are: {', '.join(header)}")
    return header.index(name)


def predicate(header: list[str], text: str) -> Predicate:
    """Turn one condition into a function over a row."""
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"cannot read the condition {text!r}: it must be column, operator, value")
    index, value, symbol = position(header, match["column"]), match["value"], match["operator"]
    if symbol in TEXT_OPERATORS:
        compare_text = TEXT_OPERATORS[symbol]
        return lambda row: index < len(row) and compare_text(row[index], value)
    compare, limit = NUMBER_OPERATORS[symbol], float(value)
    return lambda row: index < len(row) and is_number_and(row[index], compare, limit)


def is_number_and(field: str, compare: Callable[[float, float], bool], limit: float) -> bool:
    """False for a field that is not a number: an empty cell is neither above nor below."""
    try:
        return compare(float(field), limit)
    except ValueError:
        return False


def write_rows(target: Any, rows: Iterable[list[str]], delimiter: str) -> None:
    """Write rows as CSV in pieces of about 64 KiB: a write per row costs more than the
    filtering."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        if buffer.tell() >= FLUSH_CHARACTERS:
            flush(buffer, target)
    flush(buffer, target)


def flush(buffer: io.StringIO, target: Any) -> None:
    """Move the content of the buffer to the output."""
    target.write(buffer.getvalue().encode("utf-8", "surrogateescape"))
    buffer.seek(0)
    buffer.truncate()
