"""``runs`` and ``show-run``: the records of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any

import click

from storlet_client.cli.context import with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, in_line, legible, show_one, show_rows
from storlet_client.errors import BrokenAnswer, ConfigurationError
from storlet_client.output import Output
from storlet_client.storlets import Storlets

_COLUMNS = ("time", "storlet", "outcome", "object", "message", "id")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_REMEMBERED = 1000  # runs whose lines were shown
_MESSAGE = 60  # characters of a message in a list
_TO_SECONDS = len("2026-11-23T20:00:00")


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "runs",
        examples="storlet runs csv_filter.py --failed --since 1h\nstorlet runs --follow",
    )
    @with_storlets
    @click.argument("name", required=False)
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

        By default an account records failures: X-Account-Meta-Storlet-Records has the choice.
        """
        selection = selection_of(name, options)
        if options["follow"]:
            _follow(storlets.follow_runs, selection, form, _line)
            return
        records = storlets.runs(selection, options["limit"])
        if form == "table" and records:
            click.echo(legible("\n".join(map(_line, records))))
        else:
            rows = [_row(record) for record in records] if form == "csv" else records
            show_rows(rows, _COLUMNS, form, "no recorded runs")

    @group.example("show-run", examples="storlet show-run tx0123456789-1")
    @with_storlets
    @click.argument("invocation")
    @format_option
    def show_run(storlets: Storlets, invocation: str, form: str) -> None:
        """Show the record of a run, with its error and the end of its log."""
        show_one(storlets.run_record(invocation), form)


def show_logs(storlets: Storlets, name: str, options: Mapping[str, Any], form: str) -> None:
    """Print the end of the log of each recorded run, oldest first, or lines as storlets run."""
    selection = selection_of(name, {**options, "outcome": "", "until": ""})
    if options["follow"]:
        _follow(storlets.follow_logs, selection, form, _LogText())
        return
    records = storlets.runs(selection, options["limit"])[::-1]
    if form in {"json", "yaml"}:
        show_rows(records, (), form, "")
    elif form == "csv":
        show_rows([_row(record) for record in records], (*_COLUMNS, "log"), form, "")
    else:
        for record in records:
            click.echo(legible(_log(record)))
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
    found = {
        "storlet": name or "",
        "outcome": "failed" if options["failed"] else options["outcome"],
        "since": _time(options["since"], "--since"),
        "until": _time(options["until"], "--until"),
    }
    if options["follow"] and (found["since"] or found["until"]):
        raise ConfigurationError(["--follow shows runs from now on: leave out --since and --until"])
    return {key: value for key, value in found.items() if value}


def _time(text: str, option: str) -> str:
    """A time for the server; ``1h`` is an hour ago."""
    age = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if age:
        then = datetime.now(timezone.utc) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return then.strftime("%Y-%m-%dT%H:%M:%SZ")
    if text and not re.match(r"\d{4}-\d\d-\d\dT|\d+$", text):
        raise ConfigurationError(
            [f"{option} {text!r}: write a time such as 2026-11-23T19:00:00Z, or an age such as 1h"]
        )
    return text


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    storlets = " | ".join(each["name"] for each in record.get("storlets", ()))
    message = " ".join(str(record.get("message", "")).split())
    is_long = len(message) > _MESSAGE
    return {
        **record,
        "storlet": storlets,
        "outcome": record.get("code") or record.get("outcome"),
        "message": message[:_MESSAGE] + "..." if is_long else message,
    }


def _line(record: Mapping[str, Any]) -> str:
    """A run as one line, and a second one with its message: ids and paths are long."""
    row = _row(record)
    row["time"] = str(row.get("time", ""))[:_TO_SECONDS].replace("T", " ")
    shown = [column for column in _COLUMNS if column != "message" and row.get(column)]
    words = [in_line(str(row[column])) for column in shown]
    return "\n".join(["  ".join(words), *([f"  {row['message']}"] if row["message"] else [])])


def _log(record: Mapping[str, Any]) -> str:
    """A run, with the end of its log, or its traceback if it wrote none."""
    text = str(record.get("log") or record.get("traceback") or "").rstrip("\n")
    return "\n".join([_line(record), *(f"  {line}" for line in text.splitlines())])


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
            lines = [*left_out, *str(row.get("lines", "")).splitlines()]
            return "\n".join(f"{run}  {line}".lstrip() for line in lines)
        # The record of a run whose lines were shown.
        return _line(row) if row.get("id") in self._shown else _log(row)


def _record(line: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(line)
    except ValueError:
        raise BrokenAnswer("the stream has a line that is not JSON") from None
    return found


def _follow(
    follow: Callable[[Mapping[str, str]], AbstractContextManager[Output]],
    selection: Mapping[str, str],
    form: str,
    text_of: Callable[[Mapping[str, Any]], str],
) -> None:
    """Print rows until the server ends the stream; it does so after some minutes."""
    while True:
        with follow(selection) as stream:
            for line in stream.lines():
                if not line.strip():
                    continue
                record = _record(line)
                if "skipped_objects" in record:
                    click.echo("too many runs: some are left out", err=True)
                elif form == "json":
                    click.echo(line)
                else:
                    click.echo(legible(text_of(record)))
