"""Results as a table for people, or as JSON, YAML or CSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

FORMATS = ("table", "json", "yaml", "csv")
#: Columns of a table without a terminal: a program reads each row as one line.
_WIDE: Final = 10_000
#: Characters of a name that are on one line even if other columns become narrow.
_NAME_WIDTH: Final = 40
Rows = Sequence[Mapping[str, Any]]


def legible(text: str) -> str:
    """``text`` without characters that control a terminal; names come from other users."""
    return "".join(
        char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text
    )


def in_line(text: str) -> str:
    """:func:`legible` in one line: a name with a line feed must not look like another row."""
    return legible(text).replace("\n", "\\n")


def show_rows(rows: Rows, columns: Sequence[str], form: str, empty: str) -> None:
    """Print a list.

    :param columns: the columns of the table and of CSV; JSON and YAML have all values.
    :param empty: the text of an empty table.
    """
    if form == "table":
        _table(rows, columns) if rows else click.echo(empty, err=True)
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    else:
        _document([dict(row) for row in rows], form)


def show_one(values: Mapping[str, Any], form: str) -> None:
    """Print one thing, a line for each value."""
    if form in {"json", "yaml"}:
        _document(dict(values), form)
    elif form == "csv":
        rows = [{"name": name, "value": value} for name, value in values.items()]
        show_rows(rows, ("name", "value"), form, "")
    else:
        width = max(map(len, values), default=0)
        for name, value in values.items():
            click.echo(legible(f"{name:{width}}  {_cell(value)}"))


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


def _table(rows: Rows, columns: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = all(isinstance(row.get(column), int) for row in rows)
        # The first column has the names, which are copied; the others are folded before it.
        is_first = column == columns[0]
        width = max(len(in_line(_cell(row.get(column)))) for row in rows) if is_first else 0
        table.add_column(
            column.upper(),
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=min(width, _NAME_WIDTH),
        )
    for row in rows:
        table.add_row(*(Text(in_line(_cell(row.get(column)))) for column in columns))
    console().print(table)


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
