"""``run`` and ``test``: the storlet of a project, here and without a cluster."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from storlet_client.builder.project import MANIFEST, ProjectError, folder_above
from storlet_client.cli.context import DONE, PROBLEM, REFUSED, pairs, parameters_option
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, legible, show_rows
from storlet_client.cli.progress import written
from storlet_client.errors import ConfigurationError
from storlet_client.local import cases, sandbox
from storlet_client.local import subject as subjects
from storlet_client.local.here import run_here
from storlet_client.local.run import Input, Outcome
from storlet_client.local.sandbox import LocalNode
from storlet_client.local.subject import Subject

_SOURCE = click.Path(exists=True, path_type=Path)


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "run",
        examples="storlet run sample.txt -p text=apple\n"
        "storlet run fruit fruit/sample.txt -p text=apple\n"
        "storlet run fruit-0.1.0.storlet fruit/sample.txt\n"
        "storlet run . photo.jpg -p width=200 --limit Memory=64M -o small.jpg\n"
        "storlet run --no-sandbox fruit fruit/sample.txt -p text=apple\n"
        "storlet run --no-sandbox --debug grape grape/sample.txt",
    )
    @click.argument(
        "words", nargs=-1, required=True, type=_SOURCE, metavar="[PROJECT|BUNDLE] FILE..."
    )
    @parameters_option
    @click.option("-o", "--output", default="-", help="File; '-' is standard output.")
    @click.option(
        "--further-output", "outputs", multiple=True, metavar="FILE",
        help="File for a further output of the storlet; may be repeated.",
    )  # fmt: skip
    @click.option(
        "-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the first input."
    )
    @click.option("--limit", "limits", multiple=True, metavar="NAME=VALUE", help="Lowered limit.")
    @click.option(
        "--sandbox/--no-sandbox",
        default=True,
        show_default=True,
        help="In a sandbox as in a cluster, or in this process for a debugger.",
    )
    @click.option(
        "--debug",
        is_flag=True,
        help="Java, with --no-sandbox: wait for a debugger on a port, which is printed.",
    )
    @click.pass_context
    def run_(context: click.Context, /, words: tuple[Path, ...], **options: Any) -> None:
        """Run the storlet of a project or a bundle on local files, without a cluster.

        In a project, PROJECT may be left out: the first argument is an input unless it is a folder
        or a bundle. The project is the nearest folder, from the current one upwards, that has a
        storlet.toml.

        The sandbox is that of a node of a cluster, with its limits and errors. It needs Linux with
        Docker, root, and the package swift-storlets. --no-sandbox runs a Python storlet in this
        process, so debuggers work (breakpoint() in the source), with the libraries that are
        installed here; and a Java storlet in a JVM. Then there are no limits and no isolation. Log
        and metadata go to standard error.
        """
        began = time.monotonic()
        _refuse_contradictions(options)
        source, files = _source_and_files(words)
        metadata = pairs(options["metadata"], "-m")
        inputs = [Input(path, metadata if not n else {}) for n, path in enumerate(files)]
        try:
            with written(options["output"]) as file, _further(options["outputs"]) as further:
                outcome = _complete(_run(source, inputs, file.fileno(), further, options))
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
        except _Failed as failed:
            outcome = failed.outcome
        _show(outcome, time.monotonic() - began)
        context.exit(DONE if outcome.is_ok else REFUSED)

    @group.example(
        "test",
        examples="storlet test\nstorlet test fruit --junit report.xml\n"
        "storlet test fruit-0.1.0.storlet\nstorlet test --no-sandbox -k apples",
    )
    @click.argument("source", default=".", type=_SOURCE, metavar="[PROJECT|BUNDLE]")
    @click.option("-k", "selected", default="", help="Only cases with this in their name.")
    @click.option("--junit", type=click.Path(path_type=Path), help="Write a JUnit XML file.")
    @click.option(
        "--sandbox/--no-sandbox",
        "is_isolated",
        default=None,
        help="In a sandbox as in a cluster, or in processes of this machine. Default: in a sandbox"
        " if swift-storlets is installed here.",
    )
    @format_option
    @click.pass_context
    def test(context: click.Context, /, source: Path, form: str, **options: Any) -> None:
        """Run the cases of storlet.toml ([[tests]]) here, and compare with what they expect.

        A case has name, input, parameters, and output, metadata or error. A bundle has the cases
        that do not say upload = false.
        """
        selected, junit, is_isolated = (
            options[name] for name in ("selected", "junit", "is_isolated")
        )
        if is_isolated is None:
            is_isolated = bool(sandbox.command())
        try:
            subject = subjects.read(source)
            found = _results(subject, selected, is_isolated=is_isolated)
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
        for name in subject.left_out:
            text = f"not run: {name}: upload = false, so its files are not in the bundle"
            click.echo(legible(text), err=True)
        _show_faults(found)
        if junit is not None:
            with written(str(junit)) as report:
                report.write(cases.junit(found, subject.document["name"]))
        context.exit(PROBLEM if any(each.faults for each in found) else DONE)


@contextmanager
def _further(names: Sequence[str]) -> Iterator[list[Path]]:
    """Files for the further outputs of a run, which become ``names`` if the block succeeds."""
    with TemporaryDirectory() as folder, ExitStack() as opened:
        paths = [Path(folder, str(number)) for number in range(len(names))]
        targets = [opened.enter_context(written(name)) for name in names]
        for path in paths:
            path.touch(mode=0o600)
        yield paths
        for path, target in zip(paths, targets):
            with path.open("rb") as source:
                shutil.copyfileobj(source, target)


def _run(
    source: Path,
    inputs: list[Input],
    output: int,
    further: Sequence[Path],
    options: Mapping[str, Any],
) -> Outcome:
    """One run; raises :class:`ProjectError`."""
    subject = subjects.read(source)
    parameters = pairs(options["parameters"], "-p")
    if not options["sandbox"]:
        tell = _tell if options["debug"] else None
        return run_here(subject, inputs, os.dup(output), parameters, tell, further)
    limits = pairs(options["limits"], "--limit")
    with subject.as_bundle() as bundle, LocalNode(output) as node:
        return node.run(bundle, inputs, parameters, limits, further)


def _source_and_files(words: tuple[Path, ...]) -> tuple[Path, tuple[Path, ...]]:
    """The project or bundle of ``run``, and the inputs.

    :raises click.UsageError: there is no project, or no input, or the only argument can be both a
        bundle and an input.
    """
    first, *files = words
    here = folder_above(Path())
    if first.is_dir() or subjects.is_bundle(first):
        if not files:
            raise click.UsageError(_without_input(first, here))
    elif here is not None:
        first, files = here, list(words)
    elif not files:
        raise click.UsageError(
            f"{str(first)!r} has no project: there is no {MANIFEST} here or in a folder above:"
            " write 'storlet run PROJECT FILE'"
        )
    folders = [str(file) for file in files if file.is_dir()]
    if folders:
        raise click.UsageError(f"FILE {folders[0]!r} is a folder: name a file")
    return first, tuple(files)


def _without_input(subject: Path, here: Path | None) -> str:
    """The error of a run whose only argument is a folder or a bundle."""
    if subject.is_dir():
        return f"{str(subject)!r} is a folder, and FILE is missing: name the input after it"
    if here is None:
        return f"{str(subject)!r} is a bundle, and FILE is missing: name the input after it"
    return (
        f"ambiguous argument {str(subject)!r}: a bundle to run, or an input of the project here:"
        " write 'storlet run BUNDLE FILE' or 'storlet run PROJECT BUNDLE'"
    )


def _tell(address: str) -> None:
    click.echo(f"storlet: waiting for a debugger (jdwp) on {address}", err=True)


def _refuse_contradictions(options: Mapping[str, Any]) -> None:
    if options["limits"] and not options["sandbox"]:
        raise ConfigurationError(["--limit needs a sandbox: leave out --no-sandbox"])
    if options["debug"] and options["sandbox"]:
        raise ConfigurationError(["--debug is for a run without a sandbox: add --no-sandbox"])


def _show(outcome: Outcome, seconds: float) -> None:
    """Print what is not output: log, metadata, the error, and for people the cost."""
    click.echo(legible(outcome.log), err=True, nl=False)
    for name, value in outcome.metadata.items():
        click.echo(legible(f"metadata {name}: {value}"), err=True)
    for number, metadata in enumerate(outcome.further_metadata, 2):
        for name, value in metadata.items():
            click.echo(legible(f"metadata of output {number}: {name}: {value}"), err=True)
    if not outcome.is_ok:
        text = f"storlet: {outcome.code}: {outcome.message}\n\n{outcome.traceback}"
        click.echo(legible(text.rstrip()), err=True)
    if outcome.usage and sys.stderr.isatty():
        facts = (f"{seconds:.2f} s", "in a sandbox", outcome.usage.replace(";", " "))
        click.secho(legible(" · ".join(facts)), err=True, dim=True)


def _results(subject: Subject, selected: str, *, is_isolated: bool) -> list[cases.Result]:
    with ExitStack() as opened:
        project = opened.enter_context(subject.with_cases())
        if not is_isolated:
            return list(cases.results(project, selected, cases.InProcesses(project, subject.path)))
        output = opened.enter_context(tempfile.TemporaryFile())
        bundle = opened.enter_context(subject.as_bundle())
        node = opened.enter_context(LocalNode(output.fileno()))
        runner = cases.InSandbox(project, bundle, node, output)
        return list(cases.results(project, selected, runner))


class _Failed(Exception):
    """The run failed, so that the file of the output must not appear."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.code)
        self.outcome = outcome


def _complete(outcome: Outcome) -> Outcome:
    if not outcome.is_ok:
        raise _Failed(outcome)
    return outcome


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
