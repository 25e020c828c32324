"""``query``."""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import click

from storlet_client import queries
from storlet_client.cli import completion, summary
from storlet_client.cli.context import FILLED, OUTPUT, pairs, parameters_option, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import show_rows
from storlet_client.cli.progress import watched, written
from storlet_client.errors import ConfigurationError
from storlet_client.output import lines_of as output_lines
from storlet_client.storlets import Storlets

TABLE = "table"
#: Rows of a table; a result with more is several tables, so that the first ones appear early.
TABLE_ROWS = 1000
_BINARY = ("parquet", "arrow")
#: The bound of a value; more than this is no ``long`` of Windows.
_MOST_CHARACTERS = 2**31 - 1


def declare(group: Group) -> None:
    """Add the command to ``group``."""

    @group.example(
        "query",
        examples="storlet query 'SELECT station, max(degrees) FROM input GROUP BY 1'"
        " weather/2026.csv\n"
        "storlet query 'SELECT status, count(*) FROM input GROUP BY 1' logs/2026-07/ -f csv\n"
        "storlet query 'SELECT * FROM input LIMIT 5' logs --glob '*.jsonl.gz'\n"
        "storlet query 'SELECT count(*) FROM input' www/access.log -p format=apache",
    )
    @with_storlets
    @click.argument("text", metavar="SQL", type=FILLED)
    @click.argument("path", metavar="CONTAINER[/OBJECT]", shell_complete=completion.place)
    @parameters_option
    @click.option("--suffix", default="", help="Only objects whose names end with this.")
    @click.option("--glob", default="", help="Only objects whose names match this pattern.")
    @click.option(
        "-f",
        "--format",
        "form",
        type=click.Choice((TABLE, *queries.OUTPUTS)),
        help="Form of the result: a table on a terminal, else CSV.",
    )
    @click.option("-o", "--output", type=OUTPUT, default="-", help="File; '-' is standard output.")
    def query(
        storlets: Storlets, text: str, path: str, form: str | None, output: str, **options: Any
    ) -> None:
        """Run a SELECT on an object, or on all objects of a container, where the data are.

        The object is the table 'input', and so are all objects together whose names begin with
        CONTAINER/PREFIX/. CSV, JSON, Parquet and Arrow are known by the names of objects, also
        compressed; -p format=... is for others. More parameters (-p): those of std:sql.
        """
        is_terminal = output == "-" and sys.stdout.isatty()
        form = form or (TABLE if is_terminal else "csv")
        if form in _BINARY and is_terminal:
            raise ConfigurationError([f"{form} is no text for a terminal: give -o FILE"])
        if form == TABLE and output != "-":
            raise ConfigurationError(["a table is for standard output: leave out -o or -f table"])
        began = time.monotonic()
        result = storlets.sql(
            text,
            path,
            pairs(options["parameters"], "-p"),
            output="csv" if form == TABLE else form,
            suffix=options["suffix"],
            glob=options["glob"],
        )
        with result as stream:
            if form == TABLE:
                show_tables(watched(stream, path, stream.length, output))
            else:
                with written(output) as file:
                    for chunk in watched(stream, path, stream.length, output):
                        file.write(chunk)
        summary.show(time.monotonic() - began, summary.facts_of(stream.headers))


def show_tables(chunks: Iterable[bytes]) -> None:
    """Print a result in CSV as tables."""
    csv.field_size_limit(_MOST_CHARACTERS)
    rows = csv.reader(lines_of(chunks))
    names = distinct(next(rows, []))
    part = list(islice(rows, TABLE_ROWS))
    while True:
        show_rows([dict(zip(names, row)) for row in part], names, TABLE, "no rows")
        part = list(islice(rows, TABLE_ROWS))
        if not part:
            return


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines with their ends; a value in quotes may have a line feed, which the reader joins.

    The reader of Python 3.9 refuses NUL.
    """
    for line in output_lines(chunks):
        yield line.replace("\0", "\N{REPLACEMENT CHARACTER}") + "\n"


def distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, equal ones with their numbers."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return found
