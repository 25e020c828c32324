"""The object as a table: types from its first MiB, then all bytes through a named pipe.

The types are fixed before the query runs.  A later value of another type is an error, never a
missing value.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import os
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sql_check import SqlError
from sql_engine import Engine, literal

BLOCK_BYTES = 256 * 1024
#: Types are inferred from this much, which also bounds the first line.
HEAD_BYTES = 1 << 20
#: Bounds of one line, and of the blocks in which DuckDB reads.
MOST_LINE_BYTES = 1 << 20
BUFFER_BYTES = 8 << 20
MOST_COLUMNS = 10_000
DELIMITERS = {"tab": "\t", "space": " "}
TRUE = ("1", "true", "yes", "on")
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@dataclass(frozen=True)
class Format:
    """The format of the object.

    :param dialect: the options of CSV, in SQL.
    :param reader: those of them that ``csv.reader`` needs to count columns.
    """

    is_csv: bool
    is_text: bool
    dialect: str = ""
    reader: Mapping[str, Any] = field(default_factory=dict)


def format_of(params: dict[str, str]) -> Format:
    """The format that the parameters describe.

    :raises SqlError: with all faults.
    """
    is_text = params["types"] == "text"
    if params["format"] != "csv":
        return Format(is_csv=False, is_text=is_text)
    faults: list[str] = []
    delimiter = DELIMITERS.get(params["delimiter"], params["delimiter"])
    quote = "" if params["quote"] == "none" else params["quote"]
    escape = params["escape"] or quote
    if len(delimiter) != 1:
        faults.append("delimiter: want one character, tab or space")
    if params["quote"] != "none" and len(quote) != 1:
        faults.append("quote: want one character, or none")
    if len(params["escape"]) > 1:
        faults.append("escape: want one character, or nothing")
    if params["escape"] and not quote:
        faults.append("escape: has no meaning with quote=none")
    used = f"{delimiter}{quote}{params['escape']}"
    if not faults and (len({delimiter, quote, escape}) < 2 + (escape not in ("", quote))):
        faults.append("delimiter, quote and escape: want different characters")
    if not faults and (not used.isascii() or {"\r", "\n", "\0"} & set(used)):
        faults.append("delimiter, quote and escape: want ASCII characters of one line")
    if faults:
        raise SqlError("; ".join(faults))
    header = "true" if params["header"].lower() in TRUE else "false"
    dialect = (
        f"delim={literal(delimiter)}, quote={literal(quote)}, escape={literal(escape)}, comment='',"
        f" skip=0, header={header}, max_line_size={MOST_LINE_BYTES}, buffer_size={BUFFER_BYTES}"
    )
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    reader = {"delimiter": delimiter, "quotechar": quote or None, "quoting": quoting}
    if params["escape"]:
        reader |= {"escapechar": escape, "doublequote": False}
    return Format(True, is_text, dialect, reader)


def opened(source: Any, compression: str) -> Any:
    """The object without its compression."""
    if compression == "gzip":
        return gzip.GzipFile(fileobj=source, mode="rb")
    if compression == "bz2":
        return bz2.BZ2File(source)
    if compression == "xz":
        return lzma.LZMAFile(source)
    return source


def read(source: Any, size: int) -> bytes:
    """The next bytes; fewer only at the end.

    :raises SqlError: the compressed data are cut or not valid.
    """
    try:
        return bytes(source.read(size))
    except _BROKEN as error:
        raise SqlError(f"compression: the object is cut or not valid: {error}") from error
    except OSError as error:
        if error.errno is None:  # bz2: "Invalid data stream"
            raise SqlError(f"compression: the object is not valid: {error}") from error
        raise


def head_of(source: Any) -> bytes:
    """The first MiB."""
    parts, left = [], HEAD_BYTES
    while left and (part := read(source, left)):
        parts.append(part)
        left -= len(part)
    head = b"".join(parts)
    if not head.strip():
        raise SqlError("the object is empty: it has no columns")
    return head


def reader_of(engine: Engine, form: Format, head: bytes, sample: Path, pipe: str) -> str:
    """The call, in SQL, that reads the object from ``pipe``.

    :param sample: a file that this makes for the inference of types, and removes.
    """
    sample.write_bytes(_whole_lines(head))
    try:
        columns, more = (_csv_columns if form.is_csv else _json_columns)(engine, form, str(sample))
    finally:
        sample.unlink()
    if len(columns) > MOST_COLUMNS:
        raise SqlError(f"the object has {len(columns)} columns: want at most {MOST_COLUMNS}")
    kinds = ((name, "VARCHAR" if form.is_text else kind) for name, kind in columns)
    described = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in kinds)
    options = f"auto_detect=false, columns={{{described}}}"
    if form.is_csv:
        line_end = r"\r\n" if b"\r\n" in head.partition(b"\n")[0] + b"\n" else r"\n"
        options += f", new_line={literal(line_end)}, {form.dialect}{more}"
        return f"read_csv({literal(pipe)}, {options})"
    return f"read_json({literal(pipe)}, {options}, {_JSON})"


_JSON = f"format='newline_delimited', records='true', maximum_object_size={MOST_LINE_BYTES}"


def _whole_lines(head: bytes) -> bytes:
    """The head without a line that it cuts."""
    if len(head) < HEAD_BYTES:
        return head
    whole = head.rpartition(b"\n")[0]
    if not whole:
        raise SqlError(f"the first line has more than {HEAD_BYTES} bytes")
    return whole + b"\n"


def _csv_columns(engine: Engine, form: Format, sample: str) -> tuple[list[tuple[str, str]], str]:
    """Names and types of the columns, and the formats of dates, as further options."""
    options = f"{form.dialect}, sample_size=-1"
    if form.is_text:
        options += ", all_varchar=true"
    try:
        columns, date, timestamp = engine.rows(
            "SELECT Columns, DateFormat, TimestampFormat"
            f" FROM sniff_csv({literal(sample)}, {options})"
        )[0]
    except SqlError as error:
        # It lists what the inference has tried; the reader names the line.
        engine.rows(f"SELECT count(*) FROM read_csv({literal(sample)}, {_all_text(form, sample)})")
        raise SqlError(f"the object is no CSV of this dialect: {error}") from None
    more = "".join(
        f", {name}={literal(value)}"
        for name, value in (("dateformat", date), ("timestampformat", timestamp))
        if value
    )
    return [(row["name"], row["type"]) for row in columns], more


def _all_text(form: Format, sample: str) -> str:
    """Options that read the sample without inference, with as many columns as its first line."""
    with open(sample, encoding="utf-8", errors="replace", newline="") as file:
        first: list[str] = []
        with suppress(csv.Error):
            first = next(csv.reader(file, **form.reader), [])
    columns = ", ".join(f"'column{number}': 'VARCHAR'" for number in range(len(first) or 1))
    return f"auto_detect=false, columns={{{columns}}}, {form.dialect}"


def _json_columns(engine: Engine, form: Format, sample: str) -> tuple[list[tuple[str, str]], str]:
    found = engine.rows(
        f"DESCRIBE SELECT * FROM read_json({literal(sample)}, sample_size=-1, {_JSON})"
    )
    return [(str(row[0]), str(row[1])) for row in found], ""


class Feeder(threading.Thread):
    """Writes the object into a pipe: the head, then all that ``source`` gives.

    :ivar error: the reason why not all of it was written, if it was not the reader.
    """

    def __init__(self, source: Any, head: bytes, pipe: int) -> None:
        """Take ownership of the descriptor ``pipe``."""
        super().__init__(name="sql-input", daemon=True)
        self._source = source
        self._head = head
        self._pipe = pipe
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            data = self._head
            while data:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._pipe, view) :]
                data = read(self._source, BLOCK_BYTES)
        except BrokenPipeError:
            pass  # the query needs no more
        except BaseException as error:  # the run fails with it, in the main thread
            self.error = error
        finally:
            os.close(self._pipe)

    def require_no_error(self) -> None:
        """Raise the error of the input: a result of a part of the object is no result."""
        if self.error is not None:
            raise self.error
