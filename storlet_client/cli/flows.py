"""``library`` and ``distribute``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import click

from storlet_client.bundle.manifest import nearest
from storlet_client.cli import completion
from storlet_client.cli.context import (
    FILLED,
    OUTPUT,
    PROBLEM,
    pairs,
    parameters_option,
    with_storlets,
)
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, legible, show_one, show_rows, text_of
from storlet_client.cli.progress import watched, written
from storlet_client.errors import BrokenAnswer, ConfigurationError, NotThere
from storlet_client.operations import object_path
from storlet_client.storlets import Storlets

CONCATENATE = "concat"
LIBRARY_COLUMNS = ("name", "version", "summary", "parameters")
PARAMETER_COLUMNS = ("parameter", "type", "default", "values", "help")


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "library",
        examples="storlet library\nstorlet library std:grep\nstorlet library --format json",
    )
    @with_storlets
    @click.argument("name", type=FILLED, required=False)
    @format_option
    def library(storlets: Storlets, name: str | None, form: str) -> None:
        """List the storlets that every account has, or the parameters of one.

        Run them by their names (std:...).
        """
        is_short = form in {"table", "csv"}
        if name is None:
            rows = library_rows(storlets) if is_short else storlets.library()
            show_rows(rows, LIBRARY_COLUMNS, form, "the cluster has no library")
            return
        found = library_storlet(storlets, name)
        if is_short:
            show_rows(parameter_rows(found), PARAMETER_COLUMNS, form, f"{name} has no parameters")
        else:
            show_one(found, form)

    @group.example(
        "distribute",
        examples="storlet distribute std:grep logs --prefix 2026-07/ -p pattern=WARN\n"
        "storlet distribute std:wordcount books --merge std:sum -o counts.txt\n"
        "storlet distribute std:grep logs -p pattern=WARN --merge concat --to results/warn.txt\n"
        "storlet distribute fixity.py --objects paths.txt --report",
    )
    @with_storlets
    @click.argument("name", type=FILLED, shell_complete=completion.storlet)
    @click.argument("container", type=FILLED, required=False, shell_complete=completion.container)
    @parameters_option
    @click.option("--prefix", default="", help="Only objects whose names begin with this.")
    @click.option("--suffix", default="", help="Only objects whose names end with this.")
    @click.option("--glob", default="", help="Only objects whose names match this pattern.")
    @click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Only objects with this.")
    @click.option(
        "--objects",
        "listed",
        type=click.File("rb"),
        help="File with CONTAINER/OBJECT on each line, instead of a container; or with a NUL after"
        " each, for names with line feeds.",
    )
    @click.option("--merge", type=FILLED, help="Storlet that merges the outputs, or 'concat'.")
    @click.option(
        "--merge-parameter",
        "merge_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        help="Parameter of the storlet of --merge.",
    )
    @click.option("--concurrency", type=click.IntRange(1), help="Objects at the same time.")
    @click.option(
        "--parts",
        type=click.IntRange(1),
        help="Parts of each object, each with a run of its own; for std:sql-part.",
    )
    @click.option(
        "--report", is_flag=True, help="Report failures, and continue; the exit status is 1 then."
    )
    @click.option(
        "--to", type=FILLED, metavar="CONTAINER/OBJECT", help="Store the result in this object."
    )
    @click.option("-o", "--output", type=OUTPUT, default="-", help="File; '-' is standard output.")
    @click.pass_context
    def distribute(
        context: click.Context,
        storlets: Storlets,
        /,
        name: str,
        container: str | None,
        **options: Any,
    ) -> None:
        """Run a storlet on many objects, each on the node that has it.

        Prints a line of JSON for each object as it is done, or what --merge makes of the outputs.
        With --to the cluster stores this, and a summary is printed.
        """
        document = _document(name, container, options)
        output, report = options["output"], _Report()
        with storlets.distribute(document) as stream, written(output) as file:
            for chunk in watched(stream, name, stream.length, output):
                file.write(chunk)
                file.flush()
                if options["report"]:
                    report.add(chunk)
        if report.failures:
            where = options["to"] or "the report"
            click.echo(legible(f"failures: {report.failures}; {where} has the reasons"), err=True)
            context.exit(PROBLEM)


class _Report:
    """The failures of a report, counted as its lines arrive."""

    def __init__(self) -> None:
        self.failures = 0
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        """Count the lines that ``chunk`` completes: one for each object, or a summary of all.

        :raises BrokenAnswer: a line is none of a report.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        try:
            self.failures += sum(map(_failures_of, lines))
        except (ValueError, TypeError, KeyError):
            raise BrokenAnswer("the report has a line that is none of a report") from None


def _failures_of(line: bytes) -> int:
    row = json.loads(line)
    return int(row["failed"] if "failed" in row else row["outcome"] == "failed")


def library_rows(storlets: Storlets) -> list[dict[str, Any]]:
    """The storlets of the library, with the names of their parameters."""
    return [{**row, "parameters": " ".join(row["parameters"])} for row in storlets.library()]


def library_storlet(storlets: Storlets, name: str) -> Mapping[str, Any]:
    """The description of one storlet of the library.

    :raises NotThere: there is none; the error has the nearest name.
    """
    known = {row["name"]: row for row in storlets.library()}
    if name not in known:
        hint = nearest(name, known) or ": 'storlet library' has all"
        raise NotThere(f"there is no {name} in the library of the cluster{hint}")
    return known[name]


def parameter_rows(described: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parameters of a storlet by its description."""
    return [
        {
            "parameter": name,
            "type": declared["type"],
            "default": "required" if declared.get("required") else _given(declared.get("default")),
            "values": _values(declared),
            "help": declared.get("help", ""),
        }
        for name, declared in described["parameters"].items()
    ]


def _values(declared: Mapping[str, Any]) -> str:
    """The choices, or the range, of a declared parameter."""
    if "choices" in declared:
        return ", ".join(map(_given, declared["choices"]))
    least, most = (_given(declared.get(end)) for end in ("min", "max"))
    if least and most:
        return f"{least} to {most}"
    return f"at least {least}" if least else f"at most {most}" if most else ""


def _given(value: Any) -> str:
    """A value as ``-p NAME=VALUE`` has it."""
    return text_of(value).lower() if isinstance(value, bool) else text_of(value)


def _document(name: str, container: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    selection = {key: options[key] for key in ("prefix", "suffix", "glob") if options[key]}
    metadata = pairs(options["metadata"], "--metadata")
    if metadata:
        selection["metadata"] = metadata
    listed: BinaryIO | None = options["listed"]
    if (listed is None) == (not container) or (listed is not None and selection):
        raise ConfigurationError(["give a container with its options, or --objects FILE"])
    document: dict[str, Any] = {
        "objects": {"container": container, **selection} if listed is None else _paths(listed),
        "split": _part(name, options["parameters"], "-p"),
    }
    merge, more = options["merge"], options["merge_parameters"]
    if more and merge in {None, CONCATENATE}:
        raise ConfigurationError(["--merge-parameter needs --merge with a storlet"])
    if merge and options["report"]:
        raise ConfigurationError(["--report excludes --merge, whose result would look complete"])
    if merge:
        own = _part(merge, more, "--merge-parameter")
        document["merge"] = merge if merge == CONCATENATE else own
    document |= {key: options[key] for key in ("concurrency", "parts") if options[key]}
    if options["report"]:
        document["on-failure"] = "report"
    if options["to"]:
        document["output"] = "/" + "/".join(object_path(options["to"]))
    return document


def _paths(listed: BinaryIO) -> list[str]:
    """The paths of a list, each on a line or before a NUL, which no name in Swift has.

    Other ends of lines than a line feed, with or without a carriage return, are parts of names.
    """
    content = listed.read()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fault = f"--objects {listed.name}: line {line} is not UTF-8: save the file as UTF-8"
        raise ConfigurationError([fault]) from None
    if "\0" in text:
        return [path for path in text.split("\0") if path]
    lines = [line for line in text.split("\n") if line]
    # Of an editor on another system.
    if all(line.endswith("\r") for line in lines):
        return [line[:-1] for line in lines if line != "\r"]
    return lines


def _part(name: str, parameters: tuple[str, ...], option: str) -> dict[str, Any]:
    found = pairs(parameters, option)
    return {"storlet": name, "parameters": found} if found else {"storlet": name}
