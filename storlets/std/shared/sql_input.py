"""The object as a table: types from its first MiB, then all bytes through a named pipe.

The types are fixed before the query runs.  A later value that does not fit is an error, never a
missing or a changed value.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import column_names
import object_stream
import sql_types
from byte_search import Search
from last_line import LastLine
from object_stream import Inlet
from parameters import is_true, shown
from short_lines import ShortLines
from sql_check import SqlError, folded_name
from sql_engine import Engine, identifier, literal
from sql_keys import Keys
from sql_pipes import Pipes, Sample
from sql_types import Way
from thread_starts import ThreadStarts

#: Types are inferred from this much, which also bounds the first line.
HEAD_BYTES = 1 << 20
#: Begins of objects that are no text, each with its name and the storlet or parameter to use.
BINARY = {
    b"PAR1\x15": "Parquet: std:sql-parquet and std:convert-parquet read it",
    b"ARROW1\0\0": "Arrow: format=arrow reads it",
    b"\xff\xff\xff\xff": "Arrow: format=arrow reads it",
    b"\x1f\x8b\x08": "gzip: compression=gzip reads it",
}
#: Types that the first rows show, and that fit the rest of the head, are those of all of it.
FIRST_BYTES = 64 * 1024
FIRST_LINES = 200
#: Bounds of one line, and of the blocks in which DuckDB reads.
MOST_LINE_BYTES = 1 << 20
BUFFER_BYTES = 8 << 20
MOST_COLUMNS = 10_000
#: Formats of dates that other values of the head cannot change.
_CLEAR = tuple({"DATE": form, "TIMESTAMP": ""} for form in ("", "%Y-%m-%d"))
DELIMITERS = {"tab": "\t", "space": " "}


@dataclass(frozen=True)
class Format:
    """The format of the object.

    :param dialect: the options of CSV, in SQL.
    :param reader: those of them that ``csv.reader`` needs to count columns.
    :param columns: the types in SQL of the columns that have a given one.
    :param has_header: the first line of CSV has the names of the columns.
    :param may_lack: a column with a given type that the object lacks is no error.
    :param is_parallel: several threads may read CSV.
    :param has_line_feeds: no row of CSV ends with CR LF, as the dialect states (``line_feeds``).
    """

    is_csv: bool
    is_text: bool
    dialect: str = ""
    reader: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    has_header: bool = False
    may_lack: bool = False
    is_parallel: bool = True
    has_line_feeds: bool = False


def format_of(params: dict[str, str], columns: Mapping[str, str] | None = None) -> Format:
    """The format that the parameters describe.

    :raises SqlError: with all faults.
    """
    is_text, columns = params["types"] == "text", columns or {}
    if params["format"] != "csv":
        return Format(is_csv=False, is_text=is_text, columns=columns)
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
    header = is_true(params, "header")
    dialect = (
        f"delim={literal(delimiter)}, quote={literal(quote)}, escape={literal(escape)}, comment='',"
        f" skip=0, header={str(header).lower()}, max_line_size={MOST_LINE_BYTES}, buffer_size={BUFFER_BYTES}"
    )
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    reader = {"delimiter": delimiter, "quotechar": quote or None, "quoting": quoting}
    if params["escape"]:
        reader |= {"escapechar": escape, "doublequote": False}
    is_parallel = is_true(params, "parallel")
    return Format(
        True, is_text, dialect, reader, columns, has_header=header, is_parallel=is_parallel
    )


def head_of(source: Any) -> bytes:
    """The first MiB."""
    parts, left = [], HEAD_BYTES
    while left and (part := bytes(source.read(left))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def require_text(head: bytes) -> None:
    """Raise :class:`SqlError` for the first bytes of an object that is no text at all."""
    found = next((hint for magic, hint in BINARY.items() if head.startswith(magic)), "")
    if found:
        raise SqlError(f"the object is {found}")


def line_too_long() -> SqlError:
    """The error of a line that is longer than a row may be."""
    return SqlError(f"a line has more than {MOST_LINE_BYTES} bytes")


def first_line(head: bytes) -> bytes:
    """The first line with its end."""
    return head[: head.find(b"\n") + 1] or head


def has_no_rows(head: bytes, form: Format) -> bool:
    """Whether the object is empty, or has the names of columns only."""
    if len(head) >= HEAD_BYTES:
        return False
    if not head.removeprefix(BOM_UTF8).strip():
        return True
    if not form.has_header:
        return False
    csv.field_size_limit(HEAD_BYTES)
    if "escapechar" in form.reader and not _has_quotes_around(head, form):
        return False
    with suppress(csv.Error):
        # A quote in the names without an end is an error of the engine.
        lines = io.StringIO(head.decode("latin-1"), newline="")
        rows = csv.reader(lines, **form.reader, strict=True)
        return next(rows, None) is not None and next(rows, None) is None
    return False


def _has_quotes_around(head: bytes, form: Format) -> bool:
    """Whether quotes of a CSV with escape characters are around whole values only: csv.reader is
    not strict about a closing quote there.
    """
    quote, escape = (re.escape(form.reader[name].encode()) for name in ("quotechar", "escapechar"))
    delimiter = re.escape(form.reader["delimiter"].encode())
    value = b"%s(?:[^%s%s]|%s.)*%s" % (quote, quote, escape, escape, quote)
    rest = re.sub(value + b"(?=%s|\r?\n|$)" % delimiter, b"", head, flags=re.DOTALL)
    return form.reader["quotechar"].encode() not in rest


def _require_header_end(head: bytes, form: Format) -> None:
    """Raise :class:`SqlError` if a CR ends the names of columns.

    The engine drops the line up to the next LF, and with it all rows before that.
    """
    if not form.has_header or b"\r" not in first_line(head).rstrip(b"\r\n"):
        return
    last = ""

    def lines() -> Iterator[str]:
        nonlocal last
        for last in io.StringIO(head.decode("latin-1"), newline=""):
            yield last

    csv.field_size_limit(HEAD_BYTES)
    with suppress(csv.Error):
        next(csv.reader(lines(), **form.reader), None)
        if last.endswith("\r"):
            raise SqlError(
                "a CR without LF is at the end of the names of columns: want LF or CR LF"
            )


def has_plain_lines(head: bytes, form: Format) -> bool:
    """Whether each line end of the head, which is LF, ends a row with values.

    Threads of the engine begin at line ends; at another one it refuses the object.
    """
    if head.startswith(b"\n") or Search(head, b"\n\n").after(0) >= 0:
        return False
    quote = (form.reader["quotechar"] or "").encode()
    if not quote or quote not in head:
        return True
    return not any(line.count(quote) % 2 for line in head.split(b"\n")[:-1])


@dataclass(frozen=True)
class Select:
    """The SELECT of the object's columns.

    :ivar row: the SELECT of the used columns from a CSV in the sample.
    :ivar has_checked_head: the engine has read all whole rows of the head as this reads them, and
        has found no fault.
    """

    text: str
    row: str
    has_checked_head: bool = False


@dataclass(frozen=True)
class Head:
    """The first MiB of the object, and its format."""

    data: bytes
    form: Format

    @cached_property
    def line_end(self) -> bytes:
        """The end of each row of CSV for the engine: that of the first line."""
        has_cr = not self.form.has_line_feeds and first_line(self.data).endswith(b"\r\n")
        return b"\r\n" if has_cr else b"\n"

    @cached_property
    def has_threads(self) -> bool:
        """Whether several threads read the CSV."""
        if self.form.is_parallel and has_plain_lines(self.data, self.form):
            return True
        # With CR LF one thread alone could change a value, see line_feeds.
        return not self.form.has_line_feeds and b"\r\n" in self.data

    def inlet(self, engine: Engine, pipes: Pipes) -> Inlet:
        """Where the engine reads the object.

        :raises SqlError: the image does not have the package that this needs.
        """
        if self.form.is_csv and self.has_threads:
            return object_stream.piped(pipes)
        if self.form.is_csv:
            engine.use_one_thread()
        return object_stream.framed(engine, pipes)

    def whole_rows(self) -> memoryview:
        """The head without a row that it cuts; a row of CSV may have several lines."""
        view = memoryview(self.data)
        if len(view) < HEAD_BYTES:
            return view
        end = self.data.rfind(b"\n") + 1
        if self.form.is_csv and _has_marks(self.data, self.form):
            end = _end_of_rows(self.data[:end], self.form)
        if not end:
            raise SqlError(f"the first line has more than {HEAD_BYTES} bytes")
        return view[:end]

    def call(self, inlet: Inlet, declared: Sequence[tuple[str, str]]) -> str:
        """The call, in SQL, that reads the columns from ``inlet``."""
        described = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in declared)
        options = f"auto_detect=false, columns={{{described}}}"
        if self.form.is_csv:
            if not self.form.has_line_feeds:
                line_end = r"\r\n" if self.line_end == b"\r\n" else r"\n"
                options += f", new_line={literal(line_end)}"
            parallel = str(self.has_threads).lower()
            return (
                f"read_csv({literal(inlet.path)}, {options}, parallel={parallel},"
                f" {self.form.dialect}{inlet.options})"
            )
        return f"read_json({literal(inlet.path)}, {options}, {_JSON}{inlet.options})"


def select_of(
    engine: Engine, head: Head, used: Collection[str] | None, sample: Sample, inlet: Inlet
) -> Select:
    """The SELECT of the object's columns from ``inlet``.

    :param used: the columns that need a type, in lower case; None: all of them.
    :param sample: a file for the inference of types.
    """
    if not head.data or head.data.isspace():
        raise SqlError("the object is empty: it has no columns")
    is_empty = not first_line(head.data).removeprefix(BOM_UTF8).strip(b" \r\n")
    if head.form.is_csv and is_empty:
        raise SqlError("the object begins with an empty line: want the first row")
    if head.form.is_csv:
        _require_header_end(head.data, head.form)
    inference = _Inference(engine, head, used, sample)
    by_first = inference.by_first_rows()
    found = by_first or inference.by_all_rows()
    values = ", ".join(f"{way.value} AS {identifier(name)}" for name, way in found)
    declared = _declared(found)
    text = f"SELECT {values} FROM {head.call(inlet, declared)}"  # noqa: S608
    names = [identifier(name) for name, _ in declared if used is None or folded_name(name) in used]
    row = f"SELECT {', '.join(names) or 'count(*)'} FROM {head.call(Inlet(sample.path), declared)}"  # noqa: S608
    return Select(text, row, has_checked_head=bool(by_first))


class Rows:
    """The rest of a CSV on its way to the engine: lines have a bound, and the last one an end.

    :ivar source: the file.
    """

    def __init__(self, source: Any, head: bytes, form: Head) -> None:
        """
        :param head: the bytes before those of ``source``.
        """
        self.source: Any = ShortLines(source, line_too_long, head=head)
        self.source = LastLine(self.source, form.line_end, head)
        self._head = form
        self._starts: ThreadStarts | None = None
        if form.has_threads:
            mark = (form.form.reader["quotechar"] or "").encode()
            self._starts = ThreadStarts(self.source, head, mark, BUFFER_BYTES, MOST_LINE_BYTES)
            self.source = self._starts

    def require_all(self, engine: Engine, select: Select, sample: Sample) -> None:
        """Raise :class:`SqlError` if the engine has dropped rows (``thread_starts``).

        :param engine: it has read all of the file.
        :param sample: it may read this, too.
        """
        rows = self._starts.rows() if self._starts else []
        if rows:
            _require_one(engine, self._head, select, sample, rows)


def _require_one(
    engine: Engine, head: Head, select: Select, sample: Sample, rows: Sequence[bytes]
) -> None:
    """Raise :class:`SqlError` if each of the rows has a fault."""
    names = first_line(head.data) if head.form.has_header else b""
    # The number of the line is that of the sample.
    engine.errors.has_all_lines = False
    faults = []
    for row in rows:
        sample.write(names + row)
        try:
            engine.rows(select.row)
        except SqlError as error:
            faults.append(error)
        else:
            return
    raise faults[0]


def _declared(ways: Sequence[tuple[str, Way]]) -> list[tuple[str, str]]:
    """Names and declared types of the columns."""
    return [(name, way.declared) for name, way in ways]


class _Inference:
    """The way to read each column, by the values of the head."""

    def __init__(
        self, engine: Engine, head: Head, used: Collection[str] | None, sample: Sample
    ) -> None:
        self._engine = engine
        self._head = head
        self._form = head.form
        self._used = used
        self._sample = sample
        self._rows = head.whole_rows()

    def by_first_rows(self) -> list[tuple[str, Way]]:
        """The ways to read each column that the first rows show, if they are those of all rows;
        nothing: maybe not.

        The inference takes several times as long as a check.  It gives a column the first type, in
        a fixed order, that fits all values; so a type of the first values that fits the others is
        that of all.  A column of texts with a value stays one.  Dates whose order of day and month
        depends on other values are left to the inference, and so are given types, which need the
        format of dates.
        """
        if not self._form.is_csv or self._form.is_text or self._form.columns:
            return []
        lines = bytes(self._rows[:FIRST_BYTES]).split(b"\n", FIRST_LINES)
        first = b"".join(line + b"\n" for line in lines[:-1])
        first = first[: _end_of_rows(first, self._form)]
        if not first or len(first) > len(self._rows) // 2:
            return []
        try:
            self._sample.write(first)
            columns, formats = _csv_columns(self._engine, self._form, self._sample.path)
            ways = self._ways(columns, formats)
            if formats not in _CLEAR:
                return []
            filled = _with_values(first, self._form, len(columns))
            empty = [
                name
                for place, (name, kind) in enumerate(columns)
                if kind == "VARCHAR" and self._is_used(name) and place not in filled
            ]
            found = [(name, each[0]) for name, each in ways]
            kinds = {name: str(kind) for name, kind in columns}
            self._sample.write(self._rows)
            return found if self._are_certain(found, kinds, empty) else []
        except SqlError:
            return []  # the inference from all rows finds the reason

    def _are_certain(
        self, found: Sequence[tuple[str, Way]], kinds: Mapping[str, str], empty: Sequence[str]
    ) -> bool:
        """Whether all rows have the types of the first ones, and no faults.

        :param empty: the columns that have no value in the first rows.
        """
        checks, further = [], []
        for name, way in found:
            if way.fits:
                exact = sql_types.certain(name, kinds[name], way)
                plain = sql_types.plain(name, kinds[name])
                checks.append(plain or exact)
                further.append(exact if plain else "")
        checks += [f"count({identifier(name)}) = 0" for name in empty]
        further += [""] * len(empty)
        # Without a check, the count reads all rows for their faults.
        answers = self._answers(checks or ["count(*) >= 0"], found)
        # A column without a value has no answer.
        left = [check for check, answer in zip(further, answers) if answer is False]
        if left and all(left):
            return False not in self._answers(left, found)
        return not left

    def _answers(self, checks: Sequence[str], ways: Sequence[tuple[str, Way]]) -> Sequence[Any]:
        shown = ", ".join(checks)
        return self._engine.rows(f"SELECT {shown} FROM {self._call(_declared(ways))}")[0]  # noqa: S608

    def by_all_rows(self) -> list[tuple[str, Way]]:
        """The ways that all rows show."""
        self._sample.write(self._rows)
        path = self._sample.path
        if self._form.is_csv:
            columns, formats = _csv_columns(self._engine, self._form, path)
        else:
            keys = Keys(bytes(self._rows), self._form.is_text)
            columns, formats = _json_columns(self._engine, self._form, keys, path), {}
        return sql_types.chosen(self._engine, self._ways(columns, formats), self._call)

    def _ways(
        self, columns: list[tuple[str, Any]], formats: Mapping[str, str]
    ) -> list[tuple[str, list[Way]]]:
        """The ways to read each column, the best first."""
        if len(columns) > MOST_COLUMNS:
            raise SqlError(f"the object has {len(columns)} columns: want at most {MOST_COLUMNS}")
        names = [name for name, _ in columns]
        _require_columns(self._form, names)
        if self._form.has_header:
            column_names.require_own(self._written_names(), names)
        return [(name, self._ways_of(name, kind, formats)) for name, kind in columns]

    def _written_names(self) -> list[str]:
        """The names of columns as the object has them, without spaces around them."""
        text = bytes(self._rows).removeprefix(BOM_UTF8).decode(errors="replace")
        with suppress(csv.Error):
            names = next(csv.reader(io.StringIO(text, newline=""), **self._form.reader), [])
            return [name.strip() for name in names]
        return []

    def _ways_of(self, name: str, kind: Any, formats: Mapping[str, str]) -> list[Way]:
        is_csv = self._form.is_csv
        if name in self._form.columns:
            return [sql_types.given_way(name, self._form.columns[name], formats, is_csv)]
        is_text = self._form.is_text or (is_csv and not self._is_used(name))
        return sql_types.ways(name, "VARCHAR" if is_text else kind, formats, is_csv)

    def _is_used(self, name: str) -> bool:
        return self._used is None or folded_name(name) in self._used

    def _call(self, declared: Sequence[tuple[str, str]]) -> str:
        return self._head.call(Inlet(self._sample.path), declared)


def _require_columns(form: Format, names: Sequence[str]) -> None:
    unknown = [name for name in form.columns if name not in names]
    if form.may_lack:
        folded = {folded_name(name) for name in names}
        unknown = [name for name in unknown if folded_name(name) in folded]
    if unknown:
        known = ", ".join(shown(name) for name in names[:20])
        wrong = ", ".join(map(shown, unknown[:20]))
        raise SqlError(f"columns: there is no {wrong} among {known}")


_JSON = f"format='newline_delimited', records='true', maximum_object_size={MOST_LINE_BYTES}"


def _has_marks(text: bytes, form: Format) -> bool:
    """Whether a CSV has a character because of which a line end may be one of a value."""
    marks = (form.reader["quotechar"], form.reader.get("escapechar"))
    return any(mark and mark.encode() in text for mark in marks)


def _end_of_rows(lines: bytes, form: Format) -> int:
    """Where the last row ends that is whole."""
    if not _has_marks(lines, form):
        return len(lines)
    taken, end, is_over = 0, 0, False

    def each() -> Iterator[str]:
        nonlocal taken, is_over
        for line in io.BytesIO(lines):
            taken += len(line)
            yield line.decode("latin-1")
        is_over = True

    csv.field_size_limit(HEAD_BYTES)
    try:
        for _ in csv.reader(each(), **form.reader):
            if is_over:  # the row needs more lines
                break
            end = taken
    except csv.Error:
        return len(lines)
    return end


def _with_values(rows: bytes, form: Format, count: int) -> set[int]:
    """The places of those of ``count`` columns that have a value in whole rows.

    A value without bytes is none: in quotes it is one for the engine.
    """
    found: set[int] = set()
    with suppress(csv.Error):
        lines = csv.reader(
            io.StringIO(rows.removeprefix(BOM_UTF8).decode("latin-1"), newline=""), **form.reader
        )
        for row in itertools.islice(lines, int(form.has_header), None):
            found.update(place for place, value in enumerate(row) if value)
            if len(found) >= count:
                break
    return found


def _csv_columns(
    engine: Engine, form: Format, sample: str
) -> tuple[list[tuple[str, Any]], dict[str, str]]:
    """Names and types of the columns, and the formats of dates."""
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
    formats = {"DATE": date or "", "TIMESTAMP": timestamp or ""}
    return [(row["name"], row["type"]) for row in columns], formats


def _all_text(form: Format, sample: str) -> str:
    """Options that read the sample without inference, with as many columns as its first line."""
    with open(sample, encoding="utf-8", errors="replace", newline="") as file:
        first: list[str] = []
        with suppress(csv.Error):
            first = next(csv.reader(file, **form.reader), [])
    columns = ", ".join(f"'column{number}': 'VARCHAR'" for number in range(len(first) or 1))
    return f"auto_detect=false, columns={{{columns}}}, {form.dialect}"


def _json_columns(engine: Engine, form: Format, keys: Keys, sample: str) -> list[tuple[str, Any]]:
    if form.is_text and not keys.fault and keys.names:
        return [(name, "VARCHAR") for name in keys.names]
    if not keys.fault and not keys.names:
        raise SqlError("no line of the first MiB has a key, so the object has no columns")
    found = engine.rows(
        f"DESCRIBE SELECT * FROM read_json({literal(sample)}, sample_size=-1, {_JSON})"
    )
    if keys.fault:
        raise SqlError(keys.fault)
    columns = [(str(row[0]), engine.type_of(str(row[1]))) for row in found]
    unknown = [name for name, _ in columns if name not in keys.names]
    if unknown:
        raise SqlError(f"the object has no key {unknown[0]!r}, which its columns want")
    return columns
