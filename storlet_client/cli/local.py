"""``run`` and ``test``: the storlet of a project, here and without a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from storlet_client.builder import project as projects
from storlet_client.builder.project import Project, ProjectError
from storlet_client.cli.context import DONE, PROBLEM, REFUSED, pairs
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, legible, show_rows
from storlet_client.cli.progress import written
from storlet_client.errors import ConfigurationError
from storlet_client.local import cases
from storlet_client.local.run import Input, Outcome, run

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "run",
        examples="storlet run --no-sandbox fruit fruit/sample.txt -p text=apple\n"
        "storlet run --no-sandbox . photo.jpg -p width=200 -o small.jpg",
    )
    @click.argument("folder", type=_FOLDER)
    @click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
    @click.option("-p", "--parameter", "parameters", multiple=True, metavar="KEY=VALUE")
    @click.option("-o", "--output", default="-", help="File; '-' is standard output.")
    @click.option(
        "-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the first input."
    )
    @click.option(
        "--no-sandbox",
        "is_open",
        is_flag=True,
        help="Required: a run in a sandbox needs a cluster.",
    )
    @click.pass_context
    def run_(
        context: click.Context,
        /,
        folder: Path,
        files: tuple[Path, ...],
        *,
        is_open: bool,
        **options: Any,
    ) -> None:
        """Run the storlet of a Python project on local files, without a cluster.

        It runs in this process, so debuggers work (breakpoint() in the source); without the limits
        and the isolation of a sandbox, and with the libraries that are installed here. The log
        and the metadata of the output go to standard error.
        """
        if not is_open:
            raise ConfigurationError(
                ["a run in a sandbox needs a cluster: add --no-sandbox, or deploy the storlet"]
            )
        project = _project(folder)
        metadata = pairs(options["metadata"], "-m")
        inputs = [Input(path, metadata if not n else {}) for n, path in enumerate(files)]
        parameters = pairs(options["parameters"], "-p")
        try:
            with written(options["output"]) as file:
                outcome = _complete(run(project, inputs, os.dup(file.fileno()), parameters))
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
        except _Failed as failed:
            outcome = failed.outcome
        click.echo(legible(outcome.log), err=True, nl=False)
        for name, value in outcome.metadata.items():
            click.echo(legible(f"metadata {name}: {value}"), err=True)
        if not outcome.is_ok:
            text = f"storlet: {outcome.code}: {outcome.message}\n\n{outcome.traceback}"
            click.echo(legible(text.rstrip()), err=True)
        context.exit(DONE if outcome.is_ok else REFUSED)

    @group.example("test", examples="storlet test\nstorlet test fruit --junit report.xml")
    @click.argument("folder", default=".", type=_FOLDER)
    @click.option("-k", "selected", default="", help="Only cases with this in their name.")
    @click.option("--junit", type=click.Path(path_type=Path), help="Write a JUnit XML file.")
    @format_option
    @click.pass_context
    def test(
        context: click.Context, folder: Path, selected: str, junit: Path | None, form: str
    ) -> None:
        """Run the cases of storlet.toml ([[tests]]) here, and compare with what they expect.

        A case has name, input, parameters, and output, metadata or error.
        """
        project = _project(folder)
        try:
            found = list(cases.results(project, selected))
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
        rows = [
            {
                "case": each.name,
                "result": "FAILED" if each.faults else "ok",
                "seconds": round(each.seconds, 2),
                "faults": list(each.faults),
            }
            for each in found
        ]
        show_rows(rows, ("case", "result", "seconds"), form, "")
        _show_faults(found)
        if junit is not None:
            junit.write_bytes(cases.junit(found, project.document["name"]))
        context.exit(PROBLEM if any(each.faults for each in found) else DONE)


class _Failed(Exception):
    """The run failed, so that the file of the output must not appear."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.code)
        self.outcome = outcome


def _complete(outcome: Outcome) -> Outcome:
    if not outcome.is_ok:
        raise _Failed(outcome)
    return outcome


def _project(folder: Path) -> Project:
    try:
        return projects.read(folder)
    except ProjectError as error:
        raise ConfigurationError(error.faults) from None


def _show_faults(found: list[cases.Result]) -> None:
    for each in found:
        if each.faults:
            click.secho(legible(f"\n{each.name}"), err=True, bold=sys.stderr.isatty())
            for fault in each.faults:
                click.echo(legible("  " + fault.replace("\n", "\n  ")), err=True)
            if each.log:
                click.echo(
                    legible("  log:\n  " + each.log.rstrip().replace("\n", "\n  ")), err=True
                )
