"""Results as a table for people, or as JSON, YAML or CSV for programs."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

FORMATS = ("table", "json", "yaml", "csv")
#: Columns of a table without a terminal: a program reads each row as one line.
_WIDE: Final = 10_000
#: Between two columns.
_GAP: Final = "  "
_CODE_FOLDER: Final = re.compile(r'(?<=File ")/\S*/[0-9a-f]{64}/')
#: Columns of a table with times in UTC, and the forms that servers write.
_TIMES: Final = frozenset(("time", "set", "modified"))
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)?")
#: A number, a lower bound of one, or none.
_NUMBER: Final = re.compile(r"\d[\d,]*(\.\d\d)?\+?|-")
Row = Mapping[str, Any]
Rows = Sequence[Row]
Printer = Callable[[Row], None]
#: The style of a cell of a table by its column and text, such as ``red``; empty: none.
Style = Callable[[str, str], str]


def legible(text: str) -> str:
    """``text`` without characters that control a terminal; names come from other users."""
    return "".join(
        char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text
    )


def in_line(text: str) -> str:
    """:func:`legible` in one line: a name with a line feed must not look like another row."""
    return legible(text).replace("\n", "\\n")


def columns_of(stream: TextIO) -> int:
    """The columns of the terminal that a stream is; 0 if it is none."""
    return Console(file=stream).width if stream.isatty() else 0


def explained(text: str) -> str:
    """An error or a warning, legible; a terminal gets its first line with breaks between words."""
    first, *others = without_code_folder(legible(text)).split("\n")
    if len(others) == 2 and not others[0] and (others[1].partition(": ")[2] or others[1]) in first:
        others = []  # a traceback without a line of the author's code repeats the message
    return "\n".join([wrapped(first, sys.stderr, "  "), *others])


def wrapped(line: str, stream: TextIO, indent: str) -> str:
    """A line with breaks between words where a terminal needs them.

    :param indent: the start of each further line.
    """
    columns = columns_of(stream)
    if not columns:
        return line
    lines = textwrap.wrap(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def without_code_folder(text: str) -> str:
    """A traceback without the folder of the storlet's code, whose name is a hash."""
    return _CODE_FOLDER.sub("", text)


def _plain(_column: str, _text: str) -> str:
    return ""


def show_rows(
    rows: Rows, columns: Sequence[str], form: str, empty: str, style: Style = _plain
) -> None:
    """Print a list.

    :param columns: the columns of the table and of CSV; JSON and YAML have all values.
    :param empty: the text of an empty table.
    """
    if form == "table":
        _table(rows, columns, style) if rows else click.echo(empty, err=True)
    elif form == "csv":
        show = row_printer(columns, form)
        for row in rows:
            show(row)
    else:
        _document([zoned(row) for row in rows], form)


def row_printer(columns: Sequence[str], form: str) -> Printer:
    """Prints one row after the other as CSV, whose header it prints at once, or as YAML."""
    if form == "yaml":
        # Items one after the other are one list.
        return lambda row: _document([zoned(row)], form)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)

    def show(row: Row) -> None:
        values = zoned(row)
        writer.writerow([text_of(values.get(column)) for column in columns])
        sys.stdout.flush()

    return show


def show_one(values: Mapping[str, Any], form: str) -> None:
    """Print one thing, a line for each value."""
    if form in {"json", "yaml"}:
        _document(zoned(values), form)
    elif form == "csv":
        rows = [{"name": name, "value": value} for name, value in zoned(values).items()]
        show_rows(rows, ("name", "value"), form, "")
    else:
        shown = console()
        names = max((cell_len(in_line(name)) for name in values), default=0)
        for name, value in values.items():
            # Times of a run are parts of a millisecond.
            text = f"{value:.6f}" if isinstance(value, float) else _shown(value, name)
            text = without_code_folder(legible(text.rstrip("\n"))) or "-"
            _print_value(shown, _aligned(Text(in_line(name), "bold"), names), Text(text))


def zoned(row: Row) -> dict[str, Any]:
    """The values for programs: each time in the same form of ISO 8601, with its zone."""
    times = {
        column: _TIME.fullmatch(row[column])
        for column in _TIMES & row.keys()
        if isinstance(row[column], str)
    }
    forms = {
        column: f"{time[1]}T{time[2]}{time[3] or ''}Z" for column, time in times.items() if time
    }
    return {**row, **forms}


def _document(value: Any, form: str) -> None:
    if form == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        import yaml  # noqa: PLC0415 - parsing it takes time that other commands do not need

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def text_of(value: Any) -> str:
    """A value of any type in one cell."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text_of(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text_of, value))
    return str(value)


def _shown(value: Any, column: str = "") -> str:
    """A value of a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
    time = _TIME.fullmatch(value) if column in _TIMES and isinstance(value, str) else None
    return f"{time[1]} {time[2]}Z" if time else text_of(value)


def _table(rows: Rows, columns: Sequence[str], style: Style) -> None:
    """Print a line for each row, and below it the values that the terminal has no room for.

    rich's own tables make the widest columns narrower, and break words in them.
    """
    shown = console()
    titles = [column.upper() for column in columns]
    cells = [[in_line(_shown(row.get(column), column)) for column in columns] for row in rows]
    widths = [max(map(cell_len, texts)) for texts in zip(titles, *cells)]
    # Numbers are aligned at their ends.
    ends = [all(map(_NUMBER.fullmatch, texts)) for texts in zip(*cells)]
    beside = _beside(widths, ends, shown.width)
    below = [number for number in range(len(columns)) if number not in beside]
    heads = [Text(f"  {titles[number]}", "bold") for number in below]
    indent = max(map(len, heads), default=0)

    def show(texts: Sequence[Text]) -> None:
        parts = (_aligned(texts[each], widths[each], is_end=ends[each]) for each in beside)
        _print(shown, parts)

    show([Text(title, "bold") for title in titles])
    for row in cells:
        texts = [Text(text, style(column, text)) for column, text in zip(columns, row)]
        show(texts)
        for head, number in zip(heads, below):
            if row[number]:
                _print_value(shown, _aligned(head, indent), texts[number])


def _beside(widths: Sequence[int], ends: Sequence[bool], room: int) -> list[int]:
    """The columns that have room in one line: without the widest texts, and then numbers.

    The first column, which has the names, always stays.
    """
    chosen = list(range(len(widths)))
    for number in sorted(chosen[1:], key=lambda each: (ends[each], -widths[each])):
        if sum(widths[each] for each in chosen) + len(_GAP) * (len(chosen) - 1) <= room:
            break
        chosen.remove(number)
    return chosen


def _aligned(text: Text, width: int, *, is_end: bool = False) -> Text:
    """A copy of ``text`` with a width, with spaces after it, or before it."""
    aligned = text.copy()
    aligned.align("right" if is_end else "left", width)
    return aligned


def _print_value(shown: Console, name: Text, value: Text) -> None:
    """Print a name, and beside it the value in as many lines as the terminal needs."""
    room = max(1, shown.width - name.cell_len - len(_GAP))
    for line in value.wrap(shown, room, overflow="fold"):
        _print(shown, (name, line))
        name = Text(" " * name.cell_len)


def _print(shown: Console, parts: Iterable[Text]) -> None:
    """Print texts as one line, without spaces at its end."""
    line = Text(_GAP).join(parts)
    line.rstrip()
    shown.print(line, soft_wrap=True)


def console() -> Console:
    """Standard output; without a terminal, lines are as long as they need."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else _WIDE
    return _Console(width=width, highlight=False)


class _Console(Console):
    """Leaves a closed pipe to the command: rich ends the process, with another exit code."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-f``."""
    return click.option(
        "-f",
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Form of the output.",
    )(command)
