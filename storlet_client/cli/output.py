"""Results as a table for people, or as JSON, YAML or CSV for programs."""

from __future__ import annotations

import csv
import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
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
    return "\n".join([wrapped(first, sys.stderr, "  "), *others])


def wrapped(line: str, stream: TextIO, indent: str) -> str:
    """A line with breaks between words where a terminal needs them.

    :param indent: the begin of each further line.
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
        _document([dict(row) for row in rows], form)


def row_printer(columns: Sequence[str], form: str) -> Printer:
    """Prints one row after the other as CSV, whose header it prints at once, or as YAML."""
    if form == "yaml":
        # Items one after the other are one list.
        return lambda row: _document([dict(row)], form)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)

    def show(row: Row) -> None:
        writer.writerow([_cell(row.get(column)) for column in columns])
        sys.stdout.flush()

    return show


def show_one(values: Mapping[str, Any], form: str) -> None:
    """Print one thing, a line for each value."""
    if form in {"json", "yaml"}:
        _document(dict(values), form)
    elif form == "csv":
        rows = [{"name": name, "value": value} for name, value in values.items()]
        show_rows(rows, ("name", "value"), form, "")
    else:
        shown = console()
        names = max((cell_len(in_line(name)) for name in values), default=0)
        widths = [names, max(1, shown.width - names - len(_GAP))]
        for name, value in values.items():
            # Times of a run are parts of a millisecond.
            text = f"{value:.6f}" if isinstance(value, float) else _shown(value, name)
            text = without_code_folder(legible(text.rstrip("\n"))) or "-"
            _print_row(shown, [Text(in_line(name), "bold"), Text(text)], widths)


def _document(value: Any, form: str) -> None:
    if form == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        import yaml  # noqa: PLC0415 - parsing it takes time that other commands do not need

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_cell(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return str(value)


def _shown(value: Any, column: str = "") -> str:
    """A value of a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
    time = _TIME.fullmatch(value) if column in _TIMES and isinstance(value, str) else None
    return f"{time[1]} {time[2]}Z" if time else _cell(value)


def _table(rows: Rows, columns: Sequence[str], style: Style) -> None:
    cells = [[in_line(_shown(row.get(column), column)) for column in columns] for row in rows]
    titles = [column.upper() for column in columns]
    # Numbers are aligned at their ends.
    ends = [all(map(_NUMBER.fullmatch, each)) for each in zip(*cells)]
    shown = console()
    widths = _widths([titles, *cells], ends, shown.width)
    _print_row(shown, [Text(title, "bold") for title in titles], widths, ends)
    for row in cells:
        texts = [Text(text, style(column, text)) for column, text in zip(columns, row)]
        _print_row(shown, texts, widths, ends)


def _widths(lines: Sequence[Sequence[str]], ends: Sequence[bool], room: int) -> list[int]:
    """The widths of the columns of a table, whose first line has their titles.

    If the terminal has not room enough for them, columns of texts have breaks between words, and
    then within them; names, in the first column, are the last to have any.
    """
    own = [max(map(cell_len, texts)) for texts in zip(*lines)]
    words = [max(map(_longest_word, texts)) for texts in zip(*lines)]
    titles = list(map(cell_len, lines[0]))
    steps = ((words, 1), (titles, 1), (titles, 0))
    for narrow, first in steps:
        least = [
            width if number < first or is_end else each
            for number, (width, each, is_end) in enumerate(zip(own, narrow, ends))
        ]
        widths, excess = own.copy(), sum(own) + len(_GAP) * (len(own) - 1) - room
        while excess > 0:
            spare = [width - each for width, each in zip(widths, least)]
            widest = spare.index(max(spare))
            if spare[widest] <= 0:
                break
            widths[widest] -= 1
            excess -= 1
        if excess <= 0:
            return widths
    return own  # and the terminal breaks the lines


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _print_row(
    shown: Console, texts: Sequence[Text], widths: Sequence[int], ends: Sequence[bool] = ()
) -> None:
    """Print texts side by side, each in lines of its width, and nothing after the last one."""
    columns = [text.wrap(shown, width, overflow="fold") for text, width in zip(texts, widths)]
    for number in range(max(map(len, columns))):
        parts = []
        for lines, width, is_end in zip_longest(columns, widths, ends):
            part = lines[number] if number < len(lines) else Text()
            part.rstrip()
            part.align("right" if is_end else "left", width)
            parts.append(part)
        line = Text(_GAP).join(parts)
        line.rstrip()
        shown.print(line, soft_wrap=True)


def console() -> Console:
    """Standard output; without a terminal, lines are as long as they need."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else _WIDE
    return Console(width=width, highlight=False)


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
