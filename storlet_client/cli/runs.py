"""``runs`` and ``show-run``: the records of runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any

import click

from storlet_client import operations
from storlet_client.cli import completion
from storlet_client.cli.context import FILLED, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import (
    Printer,
    Row,
    columns_of,
    format_option,
    in_line,
    row_printer,
    show_one,
    show_rows,
    without_code_folder,
)
from storlet_client.cli.progress import working
from storlet_client.errors import BrokenAnswer, ConfigurationError
from storlet_client.output import Output
from storlet_client.storlets import Storlets

_COLUMNS = ("time", "storlet", "outcome", "object", "message", "id")
_LOG_COLUMNS = (*_COLUMNS, "log")
#: Of lines while storlets run, and of records.
_FOLLOWED_COLUMNS = (*_LOG_COLUMNS, "lines", "skipped_bytes")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_REMEMBERED = 1000  # runs whose lines were shown
_LEAST = 20  # characters of a message on a terminal
_TO_SECONDS = len("2026-11-23T20:00:00")


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "runs",
        examples="storlet runs csv_filter.py --failed --since 1h\nstorlet runs --follow",
    )
    @with_storlets
    @click.argument("name", type=FILLED, required=False, shell_complete=completion.storlet)
    @click.option("--failed", is_flag=True, help="Only failed runs.")
    @click.option("--outcome", default="", help="ok, failed, refused, cancelled or an error code.")
    @click.option("--since", default="", help="Time (2026-11-23T19:00:00Z), or an age such as 1h.")
    @click.option("--until", default="", help="The same; runs that ended before.")
    @click.option(
        "--limit",
        default=20,
        show_default=True,
        type=click.IntRange(1, 100_000),
        help="Most runs.",
    )
    @click.option("--follow", is_flag=True, help="Print runs as they end, until interrupted.")
    @format_option
    def runs(storlets: Storlets, name: str | None, form: str, **options: Any) -> None:
        """List recorded runs, newest first.

        By default an account records failures; 'storlet enable --records all' changes that.
        """
        selection = selection_of(name, options)
        if options["follow"]:
            _follow(storlets.follow_invocations, selection, _printer(form, _line, _COLUMNS))
            return
        with working("runs"):
            records = storlets.invocations(**selection, most=options["limit"])
        if form == "table" and records:
            widths = _widths(records)
            for record in records:
                click.echo(_line(record, widths))
        else:
            rows = [_row(record, is_whole=True) for record in records] if form == "csv" else records
            show_rows(rows, _COLUMNS, form, "no recorded runs")

    @group.example("show-run", examples="storlet show-run tx0123456789-1")
    @with_storlets
    @click.argument("invocation")
    @format_option
    def show_run(storlets: Storlets, invocation: str, form: str) -> None:
        """Show the record of a run, with its error and the end of its log."""
        show_one(storlets.invocation(invocation), form)


def show_logs(storlets: Storlets, name: str, options: Mapping[str, Any], form: str) -> None:
    """Print the end of the log of each recorded run, oldest first, or lines as storlets run."""
    selection = selection_of(name, {**options, "outcome": "", "until": ""})
    if options["follow"]:
        _follow(storlets.follow_logs, selection, _printer(form, _LogText(), _FOLLOWED_COLUMNS))
        return
    with working(f"logs {name}"):
        records = storlets.invocations(**selection, most=options["limit"])[::-1]
    if form in {"json", "yaml"}:
        show_rows(records, (), form, "")
    elif form == "csv":
        rows = [_row(record, is_whole=True) for record in records]
        show_rows(rows, _LOG_COLUMNS, form, "")
    else:
        for record in records:
            click.echo(_log(record))
        if not records:
            click.echo(f"no recorded runs of {name}", err=True)
    if len(records) == options["limit"]:
        click.echo("there may be older runs: raise --limit", err=True)


def selection_of(name: str | None, options: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the request for records.

    :raises ConfigurationError: options contradict each other, or a time is not one.
    """
    if options["failed"] and options["outcome"]:
        raise ConfigurationError(["--failed and --outcome exclude each other"])
    outcome = "failed" if options["failed"] else options["outcome"]
    since, until = (_time(options[each], f"--{each}") for each in ("since", "until"))
    if options["follow"] and (since or until):
        raise ConfigurationError(["--follow shows runs from now on: leave out --since and --until"])
    return operations.selection(name or "", outcome, since, until)


def _time(text: str, option: str) -> str:
    """A time for the server; ``1h`` is an hour ago."""
    age = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if age:
        then = datetime.now(timezone.utc) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return then.strftime("%Y-%m-%dT%H:%M:%SZ")
    # A day, and a time as the lists print it, too.
    if text and not re.match(r"\d{4}-\d\d-\d\d([T ]|$)|\d+$", text):
        raise ConfigurationError(
            [f"{option} {text!r}: write a time such as 2026-11-23T19:00:00Z, or an age such as 1h"]
        )
    return text


def _row(record: Mapping[str, Any], *, is_whole: bool = False) -> dict[str, Any]:
    """The values of a list.

    :param is_whole: a long message is not cut: for programs.
    """
    message = " ".join(str(record.get("message", "")).split())
    columns = columns_of(sys.stdout)
    most = max(_LEAST, columns - len("  ..."))
    is_long = columns and len(message) > most and not is_whole
    return {
        **record,
        "storlet": storlets_of(record),
        "outcome": record.get("code") or record.get("outcome"),
        "message": message[:most] + "..." if is_long else message,
    }


def storlets_of(record: Mapping[str, Any]) -> str:
    """The storlets of a run, in their order."""
    return " | ".join(each["name"] for each in record.get("storlets", ()))


def _widths(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The columns of a terminal that the values of several runs have before the next value."""
    rows = [_row(record) for record in records]
    return {
        column: max(len(in_line(str(row.get(column) or ""))) for row in rows)
        for column in ("storlet", "outcome", "object")
    }


def _line(record: Mapping[str, Any], widths: Mapping[str, int] | None = None) -> str:
    """A run as one line, and a second one with its message: ids and paths are long."""
    row, wide = _row(record), widths or {}
    row["time"] = str(row.get("time", ""))[:_TO_SECONDS].replace("T", " ") + "Z"
    shown = [
        column
        for column in _COLUMNS
        if column != "message" and (row.get(column) or wide.get(column))
    ]
    words = [
        _coloured(column, in_line(str(row.get(column) or "")).ljust(wide.get(column, 0)))
        for column in shown
    ]
    message = [f"  {in_line(row['message'])}"] if row["message"] else []
    columns = columns_of(sys.stdout)
    if columns and len(click.unstyle("  ".join(words))) > columns:
        # The id has a line of its own.
        return "\n".join(["  ".join(words[:-1]), f"  {words[-1]}", *message])
    return "\n".join(["  ".join(words), *message])


def _coloured(column: str, text: str) -> str:
    """A word of the line, for a terminal."""
    if column == "outcome":
        return click.style(text, fg="green" if text.strip() == "ok" else "red")
    return click.style(text, dim=True) if column == "id" else text


def _log(record: Mapping[str, Any]) -> str:
    """A run, with the end of its log, or its traceback if it wrote none."""
    text = without_code_folder(str(record.get("log") or record.get("traceback") or ""))
    lines = text.rstrip("\n").splitlines()
    return "\n".join([_line(record), *(f"  {in_line(line)}" for line in lines)])


class _LogText:
    """The text of a row of a stream with log lines."""

    def __init__(self) -> None:
        self._shown: dict[str, None] = {}

    def __call__(self, row: Mapping[str, Any]) -> str:
        skipped = row.get("skipped_bytes")
        left_out = [f"({skipped} bytes of logs are left out)"] if skipped else []
        if "code" not in row:
            run = str(row.get("id", ""))
            self._shown[run] = None
            if len(self._shown) > _REMEMBERED:
                del self._shown[next(iter(self._shown))]
            text = without_code_folder(str(row.get("lines", "")))
            begin = f"{_coloured('id', in_line(run))}  " if run else ""
            return "\n".join(begin + in_line(line) for line in [*left_out, *text.splitlines()])
        # The record of a run whose lines were shown.
        return _line(row) if row.get("id") in self._shown else _log(row)


def _record(line: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(line)
    except ValueError:
        raise BrokenAnswer("the stream has a line that is not JSON") from None
    return found


def _printer(form: str, text_of: Callable[[Row], str], columns: Sequence[str]) -> Printer:
    """Prints each row of a stream as it comes: lines of JSON, items of a list of YAML, or CSV."""
    if form == "table":
        return lambda row: click.echo(text_of(row))
    if form == "json":
        return lambda row: click.echo(json.dumps(row, ensure_ascii=False))
    show = row_printer(columns, form)
    return lambda row: show(_row(row, is_whole=True) if form == "csv" else row)


def _follow(
    follow: Callable[..., AbstractContextManager[Output]],
    selection: Mapping[str, str],
    show: Printer,
) -> None:
    """Print rows; when the server ends the stream, which it does after some minutes, repeat."""
    while True:
        with follow(**selection) as stream:
            for line in stream.lines():
                if not line.strip():
                    continue
                record = _record(line)
                if "skipped_objects" in record:
                    click.echo("too many runs: some are left out", err=True)
                else:
                    show(record)
