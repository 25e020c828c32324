"""``replay``: a recorded run again, compared with its record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO

import click

from storlet_client import replay as replays
from storlet_client.cli.context import DONE, OUTPUT, PROBLEM, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, show_rows
from storlet_client.cli.progress import watched, working, written
from storlet_client.errors import NotRepeatable
from storlet_client.local import repeat
from storlet_client.output import Output
from storlet_client.replay import Ran
from storlet_client.storlets import Storlets

#: Characters of a hash in a table.
_HASH = 16


def declare(group: Group) -> None:
    """Add the command to ``group``."""

    @group.example(
        "replay",
        examples="storlet replay tx0123456789-1\n"
        "storlet replay tx0123456789-1 --any-version -o output\n"
        "storlet replay tx0123456789-1 --local",
    )
    @with_storlets
    @click.argument("invocation")
    @click.option(
        "--any-version",
        is_flag=True,
        help="With the object and the storlet as they are now, if they have changed.",
    )
    @click.option(
        "--local",
        is_flag=True,
        help="In a sandbox of this machine, as 'storlet run'. A plain file must be the one that"
        " ran: no earlier version of it is kept.",
    )
    @click.option("-o", "--output", type=OUTPUT, help="File for the output.")
    @format_option
    @click.pass_context
    def replay(
        context: click.Context, /, storlets: Storlets, invocation: str, form: str, **options: Any
    ) -> None:
        """Repeat a recorded run, and compare outcome and output with its record.

        It has the version, the parameters and the object of the record, and stores nothing. The
        exit status is 1 if the two runs differ.
        """
        record = storlets.invocation(invocation)
        faults = replays.faults_of(record, any_version=options["any_version"])
        if faults:
            raise NotRepeatable("; ".join(f"{invocation}: {each}" for each in faults))
        rows = replays.compared(record, _repeat(storlets, record, options))
        shown = [
            {
                "fact": row.name,
                "recorded": _shown(row.name, row.recorded, form),
                "repeated": _shown(row.name, row.repeated, form),
                "same": "-" if row.is_same is None and form == "table" else row.is_same,
            }
            for row in rows
        ]
        columns = ("fact", "recorded", "repeated", "same")
        colours = {"yes": "green", "no": "red"}
        show_rows(shown, columns, form, "", lambda _, text: colours.get(text, ""))
        context.exit(PROBLEM if any(row.is_same is False for row in rows) else DONE)


def _shown(name: str, text: str, form: str) -> Any:
    """A fact; a table has the start of a hash, and JSON a number for bytes."""
    if form == "table":
        missing = "-" if name == "message" else "unknown"
        return (text[:_HASH] if name == "sha256" else text) or missing
    return int(text) if name == "bytes" and text else text or None


def _repeat(storlets: Storlets, record: Mapping[str, Any], options: Mapping[str, Any]) -> Ran:
    is_any = options["any_version"]
    invocation = replays.invocation_of(storlets, record, any_version=is_any)
    output = options["output"] or ""

    def passing(stream: Output, name: str) -> Iterator[bytes]:
        return watched(stream, name, stream.length, output)

    with ExitStack() as opened:
        opened.enter_context(working(f"replay {record['id']}", output))
        target: BinaryIO | None = None
        if output:
            target = opened.enter_context(written(output))
        if not options["local"]:
            return replays.on_cluster(storlets, record, invocation, target, passing)
        stored = opened.enter_context(tempfile.TemporaryFile())
        ran = repeat.here(storlets, record, invocation, stored, passing)
        if target is not None:
            repeat.keep(stored, target)
        return ran
