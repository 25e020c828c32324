"""``upload``, ``invoke`` and ``logs``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, BinaryIO

import click

from storlet_client.cli import completion, summary
from storlet_client.cli.context import FILLED, OUTPUT, pairs, parameters_option, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, legible, show_rows
from storlet_client.cli.progress import FileBody, watched, working, written
from storlet_client.cli.runs import show_logs
from storlet_client.content import SMALL_BYTES
from storlet_client.diagnosis.check import command
from storlet_client.errors import ConfigurationError
from storlet_client.operations import object_path
from storlet_client.storlets import Storlets

LOG_COLUMNS = ("invocation", "time", "bytes")


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example("upload", examples="storlet upload input.csv samples/input.csv")
    @with_storlets
    @click.argument("source", type=click.File("rb"), metavar="FILE")
    @click.argument("path", metavar="CONTAINER/OBJECT", shell_complete=completion.place)
    @click.option("--content-type", default="", help="Content type; by the suffix of the object.")
    def upload(storlets: Storlets, source: BinaryIO, path: str, content_type: str) -> None:
        """Upload a file as an object, and create its container if it is missing.

        No storlet runs, unless the rules of the account say so. The tools of Swift do the same.
        """
        if storlets.upload(path, _body(source), content_type):
            click.echo(legible(f"created container {object_path(path)[0]}"))
        click.echo(legible(f"stored {path}"))

    @group.example(
        "invoke",
        examples="storlet invoke csv_filter.py samples/input.csv -p columns=station\n"
        "storlet invoke thumb.jar photos/a.jpg -o a-small.jpg\n"
        "storlet invoke thumb.jar photos/a.jpg --to thumbs/a.jpg\n"
        "storlet invoke deidentify.py patients/new.csv --put new.csv",
    )
    @with_storlets
    @click.argument("name", type=FILLED, shell_complete=completion.storlet)
    @click.argument("path", metavar="CONTAINER/OBJECT", shell_complete=completion.place)
    @parameters_option
    @click.option(
        "-o",
        "--output",
        type=OUTPUT,
        help="File for the output; '-' (default) is standard output.",
    )
    @click.option(
        "--to",
        "target",
        type=FILLED,
        metavar="CONTAINER/OBJECT",
        help="Store the output as this.",
    )
    @click.option(
        "--put", "source", type=click.File("rb"), help="Upload this file through the storlet."
    )
    @click.option("--content-type", default="", help="Content type of the uploaded file.")
    @click.option("--range", "byte_range", default="", metavar="A-B", help="Bytes of the input.")
    @click.option(
        "--resource",
        "resources",
        multiple=True,
        metavar="CONTAINER/OBJECT",
        help="Further input.",
        shell_complete=completion.place,
    )
    @click.option(
        "--further-output",
        "outputs",
        multiple=True,
        metavar="CONTAINER/OBJECT",
        help="Store the next further output as this.",
    )
    @click.option("--limit", "limits", multiple=True, metavar="NAME=VALUE", help="Lowered limit.")
    @click.option("--on-proxy", is_flag=True, help="Run at the proxy server.")
    @click.option("--keep-log", is_flag=True, help="Store the log; see 'storlet logs'.")
    def invoke(storlets: Storlets, name: str, path: str, **options: Any) -> None:
        """Run a storlet on an object.

        Prints the output (GET), stores it (--to), or uploads a file through the storlet (--put).
        A terminal on standard error also shows time, placement and usage.
        """
        target, source = options["target"], options["source"]
        _refuse_contradictions(target, source, options)
        parameters = pairs(options["parameters"], "-p")
        more = {
            "byte_range": options["byte_range"],
            "resources": options["resources"],
            "outputs": options["outputs"],
            "limits": pairs(options["limits"], "--limit"),
            "on_proxy": options["on_proxy"],
            "keep_log": options["keep_log"],
        }
        began = time.monotonic()
        if source is not None:
            body = _body(source)
            kind = options["content_type"]
            answer = storlets.put(name, path, body, parameters, content_type=kind, **more)
            _summary(answer.headers, began, f"stored {path}")
        elif target is not None:
            answer = storlets.copy(name, path, target, parameters, **more)
            _summary(answer.headers, began, f"stored {target}")
        else:
            run = storlets.run(name, path, parameters, **more)
            output = options["output"] or "-"
            with run as stream, written(output) as file:
                for chunk in watched(stream, f"{name} {path}", stream.length, output):
                    file.write(chunk)
            _summary(stream.headers, began, "")

    @group.example(
        "logs",
        examples="storlet logs csv_filter.py\nstorlet logs csv_filter.py tx0123456789-1\n"
        "storlet logs csv_filter.py --failed --since 1h\nstorlet logs csv_filter.py --follow",
    )
    @with_storlets
    @click.argument("name", shell_complete=completion.storlet)
    @click.argument("invocation", type=FILLED, required=False)
    @click.option("--failed", is_flag=True, help="Ends of the logs of failed runs.")
    @click.option("--since", default="", help="Recorded runs since a time, or an age such as 1h.")
    @click.option(
        "--follow", is_flag=True, help="Lines of logs as storlets run, until interrupted."
    )
    @click.option(
        "--limit",
        default=20,
        show_default=True,
        type=click.IntRange(1, 100_000),
        help="Most recorded runs.",
    )
    @format_option
    def logs(
        storlets: Storlets, name: str, invocation: str | None, form: str, **options: Any
    ) -> None:
        """List the stored logs of a storlet, or print one.

        A run stores its log if the request has 'storlet invoke --keep-log'. --failed and --since
        print the ends of logs (4 KiB) that the records of failed runs have, oldest first. --follow
        prints log lines while storlets run, and recorded runs as they end; with --failed, only the
        ends of failed runs.
        """
        _show_logs(storlets, name, invocation, form, options)


def _show_logs(
    storlets: Storlets, name: str, invocation: str | None, form: str, options: Mapping[str, Any]
) -> None:
    """Print ends of logs from records, one stored log, or the list of stored logs."""
    if options["failed"] or options["since"] or options["follow"]:
        if invocation is not None:
            raise ConfigurationError(
                [f"{invocation}: --failed, --since and --follow are for several runs"]
            )
        show_logs(storlets, name, options, form)
        return
    if invocation is not None:
        click.echo(storlets.log(name, invocation), nl=False)
        return
    ends = f"'{command('storlet', 'logs', name, '--failed')}' shows the ends of those of failures"
    empty = f"no stored logs of {name}: run it with 'storlet invoke --keep-log', or {ends}"
    with working(f"logs {name}"):
        rows = log_rows(storlets, name)
    show_rows(rows, LOG_COLUMNS, form, empty)


def log_rows(storlets: Storlets, name: str) -> list[dict[str, Any]]:
    """The stored logs of a storlet, the newest last."""
    return [
        {
            "invocation": row["name"].rpartition("/")[2].removesuffix(".log"),
            "time": row["last_modified"],
            "bytes": row["bytes"],
        }
        for row in storlets.logs(name)
    ]


def _refuse_contradictions(target: str | None, source: Any, options: Mapping[str, Any]) -> None:
    faults = []
    if target is not None and source is not None:
        faults.append(
            "--to and --put exclude each other: --put stores the output as CONTAINER/OBJECT"
        )
    if options["output"] is not None and (target is not None or source is not None):
        faults.append("-o is for an output that is not stored: leave out --to and --put")
    if options["content_type"] and source is None:
        faults.append("--content-type needs --put")
    if faults:
        raise ConfigurationError(faults)


def _body(source: BinaryIO) -> FileBody | bytes:
    """The bytes of a file; a small file can be sent again after a failure."""
    first = source.read(SMALL_BYTES + 1)
    return first if len(first) <= SMALL_BYTES else FileBody(first, source)


def _summary(headers: Mapping[str, str], began: float, text: str) -> None:
    """Print the result, for people."""
    if text:
        click.echo(legible(text))
    if headers.get("x-storlet-log-lost"):
        click.echo("warning: the log could not be stored", err=True)
    summary.show(time.monotonic() - began, summary.facts_of(headers))
