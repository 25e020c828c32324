"""``run`` and ``test``: a storlet on local files, here and without a cluster."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import click

from storlet_client.builder import plain
from storlet_client.builder.project import MANIFEST, ProjectError, folder_above
from storlet_client.bundle import languages
from storlet_client.bundle.languages import Form
from storlet_client.cli import summary
from storlet_client.cli.context import DONE, OUTPUT, PROBLEM, REFUSED, pairs, parameters_option
from storlet_client.cli.groups import Group
from storlet_client.cli.output import (
    explained,
    format_option,
    in_line,
    legible,
    show_rows,
    without_code_folder,
)
from storlet_client.cli.progress import (
    bundle_of,
    chunks_of,
    running,
    size_of,
    watched,
    working,
    written,
)
from storlet_client.errors import ConfigurationError
from storlet_client.local import cases, sandbox
from storlet_client.local import subject as subjects
from storlet_client.local.here import run_here
from storlet_client.local.run import Input, Outcome
from storlet_client.local.sandbox import LocalNode
from storlet_client.local.subject import Subject
from storlet_client.operations import language_of

_SOURCE = click.Path(exists=True, path_type=Path)
#: A word of ``run``.
_WORD = click.Path(exists=True, allow_dash=True)
#: The word for standard input.
_STANDARD_INPUT = "-"


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "run",
        examples="storlet run sample.txt -p text=apple\n"
        "storlet run fruit fruit/sample.txt -p text=apple\n"
        "storlet run fruit -p text=apple < fruit/sample.txt\n"
        "storlet run fruit-0.1.0.storlet fruit/sample.txt\n"
        "storlet run csv_filter.py input.csv -p columns=station\n"
        "storlet run --language native /usr/bin/sort input.csv\n"
        "storlet run . photo.jpg -p width=200 --limit Memory=64M -o small.jpg\n"
        "storlet run --no-sandbox fruit fruit/sample.txt -p text=apple\n"
        "storlet run --no-sandbox --debug grape grape/sample.txt",
    )
    @click.argument("words", nargs=-1, type=_WORD, metavar="[PROJECT|BUNDLE|STORLET] [FILE]...")
    @parameters_option
    @click.option("-o", "--output", type=OUTPUT, default="-", help="File; '-' is standard output.")
    @click.option(
        "--further-output", "outputs", type=OUTPUT, multiple=True, metavar="FILE",
        help="File for a further output of the storlet; may be repeated.",
    )  # fmt: skip
    @click.option(
        "-m", "--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the first input."
    )
    @click.option("--limit", "limits", multiple=True, metavar="NAME=VALUE", help="Lowered limit.")
    @click.option(
        "--language",
        type=click.Choice(languages.NAMES),
        help="Language of the storlet; by the suffix of a plain file. Another one in the manifest"
        " is an error.",
    )
    @click.option(
        "--main",
        help="Of a plain file: module.Class, a Java class, or FILE:FUNCTION; the only class of a"
        " Python file, or the native program.",
    )
    @click.option(
        "--dependency",
        "dependencies",
        multiple=True,
        metavar="FILE[:MODE]",
        help="Of a plain file: file beside it, such as lib.py or tool:0700. Repeat it for several.",
    )
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
    def run_(context: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
        """Run a storlet on local files, without a cluster.

        PROJECT and BUNDLE may be left out in a project: the first argument is an input unless it is
        a folder or a bundle. The project is the nearest folder, from the current one upwards, that
        has a storlet.toml. Outside of a project, the first argument may be the plain file of a
        storlet (STORLET), as for 'storlet deploy'.

        Without FILE, the input is standard input, if that is not a terminal; '-' is standard input,
        too.

        The sandbox is that of a node of a cluster, with its limits and errors. It needs Linux with
        Docker, root, and the package swift-storlets. --no-sandbox runs a Python storlet in this
        process, so debuggers work (breakpoint() in the source), with the libraries that are
        installed here; and a Java storlet in a JVM. Then there are no limits and no isolation. Log
        and metadata go to standard error.
        """
        began = time.monotonic()
        _refuse_contradictions(options)
        called = _called(words, options["language"])
        metadata = pairs(options["metadata"], "-m")
        try:
            with ExitStack() as opened:
                subject = opened.enter_context(_subject(called, options))
                inputs = opened.enter_context(_inputs(called.files, metadata))
                file = opened.enter_context(written(options["output"]))
                further = opened.enter_context(_further(options["outputs"]))
                outcome = _complete(_run(subject, inputs, file, further, options))
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
        except _Failed as failed:
            outcome = failed.outcome
        _show(outcome, time.monotonic() - began, is_isolated=options["sandbox"])
        context.exit(DONE if outcome.is_ok else REFUSED)

    @group.example(
        "test",
        examples="storlet test\nstorlet test fruit --junit report.xml\n"
        "storlet test fruit-0.1.0.storlet\nstorlet test --no-sandbox -k apples",
    )
    @click.argument("source", default=".", type=_SOURCE, metavar="[PROJECT|BUNDLE]")
    @click.option("-k", "selected", default="", help="Only cases with this in their name.")
    @click.option("--junit", type=OUTPUT, help="Write a JUnit XML file.")
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
        colours = {"ok": "green", "FAILED": "bold red"}
        show_rows(
            rows, ("case", "result", "seconds"), form, "",
            lambda column, text: colours.get(text, "") if column == "result" else "",
        )  # fmt: skip
        for name in subject.left_out:
            text = f"not run: {name}: upload = false, so its files are not in the bundle"
            click.echo(legible(text), err=True)
        _show_faults(found)
        if junit is not None:
            with written(junit) as report:
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
    subject: Subject,
    inputs: Sequence[Input],
    output: BinaryIO,
    further: Sequence[Path],
    options: Mapping[str, Any],
) -> Outcome:
    """One run; raises :class:`ProjectError`."""
    parameters = pairs(options["parameters"], "-p")
    language, form = subject.document["language"], languages.form_of(subject.document)
    if options["debug"] and form is not Form.JARS:
        hint = "use breakpoint() in the source" if form is Form.MODULES else "leave it out"
        raise ConfigurationError([f"--debug is for Java, and this is {language}: {hint}"])
    if not options["sandbox"]:
        with ExitStack() as opened:
            if form is Form.JARS:
                subject = Subject(opened.enter_context(bundle_of(subject)), subject.document)
            tell = None
            if options["debug"]:
                tell = _tell  # and no progress: the JVM waits for a person
            else:
                opened.enter_context(running(subject, options["output"], output, is_here=True))
            return run_here(subject, inputs, os.dup(output.fileno()), parameters, tell, further)
    limits = pairs(options["limits"], "--limit")
    with ExitStack() as opened:
        # First: a machine without sandboxes builds no bundle.
        node = opened.enter_context(LocalNode(output.fileno()))
        bundle = opened.enter_context(bundle_of(subject))
        opened.enter_context(running(subject, options["output"], output, is_here=False))
        return node.run(bundle, inputs, parameters, limits, further)


# --- the arguments of run -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Called:
    """The arguments of ``run``.

    :param subject: the folder of a project, a bundle, or the plain file of a storlet.
    :param files: the inputs.
    """

    subject: Path
    files: tuple[str, ...]
    is_plain: bool = False


def _called(words: tuple[str, ...], language: str | None) -> _Called:
    """The subject and the inputs.

    :raises click.UsageError: there is no subject, no input, or an argument can be both.
    """
    called = _parted(words, language)
    names = [file for file in called.files if file != _STANDARD_INPUT]
    folders = [name for name in names if Path(name).is_dir()]
    if folders:
        raise click.UsageError(f"FILE {folders[0]!r} is a folder: name a file")
    if len(called.files) > len(names) + 1:
        raise click.UsageError("'-' is given twice: standard input is one input")
    if called.files:
        return called
    if sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError(
            f"{str(called.subject)!r} has no input: FILE is missing, and standard input is a"
            " terminal: name a file, or write '< FILE'"
        )
    return _Called(called.subject, (_STANDARD_INPUT,), called.is_plain)


def _parted(words: tuple[str, ...], language: str | None) -> _Called:
    """The words; ``files`` is empty if they name no input."""
    here = folder_above(Path())
    first, files = words[:1], words[1:]
    if first and first[0] != _STANDARD_INPUT:
        subject = Path(first[0])
        if subject.is_dir() or subjects.is_bundle(subject):
            if not files and here is not None and not subject.is_dir():
                raise click.UsageError(_ambiguous(first[0]))
            return _Called(subject, files)
        if here is None and (language or language_of(subject.name)):
            return _Called(subject, files, is_plain=True)
    if here is not None:
        return _Called(here, words)
    named = f"{first[0]!r} has no project" if first else "there is no project"
    raise click.UsageError(
        f"{named}: there is no {MANIFEST} here or in a folder above: write 'storlet run PROJECT"
        " FILE', or 'storlet run --language LANGUAGE STORLET FILE'"
    )


def _ambiguous(bundle: str) -> str:
    """The error of a run in a project whose only argument is a bundle."""
    return (
        f"ambiguous argument {bundle!r}: a bundle to run, or an input of the project here: write"
        " 'storlet run BUNDLE FILE', 'storlet run BUNDLE -' or 'storlet run PROJECT BUNDLE'"
    )


@contextmanager
def _subject(called: _Called, options: Mapping[str, Any]) -> Iterator[Subject]:
    """The subject of a run; the bundle of a plain file exists during the block only.

    :raises ProjectError: it is not valid.
    :raises ConfigurationError: an option contradicts its manifest, or does not fit the plain file.
    """
    language, main, dependencies = (options[key] for key in ("language", "main", "dependencies"))
    if called.is_plain:
        with tempfile.TemporaryDirectory() as folder:
            file = called.subject
            yield subjects.read(plain.bundle(file, Path(folder), language, main, dependencies))
        return
    subject = subjects.read(called.subject)
    faults = [
        f"{option}: the manifest of {called.subject} has this: leave it out"
        for option, value in (("--main", main), ("--dependency", dependencies))
        if value
    ]
    declared = subject.document["language"]
    if language not in (None, declared):
        faults.append(
            f"--language {language}: the manifest of {called.subject} has the language {declared}:"
            " leave it out"
        )
    if faults:
        raise ConfigurationError(faults)
    yield subject


@contextmanager
def _inputs(files: Sequence[str], metadata: Mapping[str, str]) -> Iterator[list[Input]]:
    """The inputs; the first has the metadata.

    Standard input is a file during the block: sandboxes take files, and a storlet may seek in one.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            _stored(Path(folder, "input")) if file == _STANDARD_INPUT else Path(file)
            for file in files
        ]
        yield [Input(path, {} if number else metadata) for number, path in enumerate(paths)]


def _stored(place: Path) -> Path:
    """``place``, which gets the bytes of standard input."""
    if sys.stdin is None:
        raise ConfigurationError(["standard input is closed: name a file"])
    source = sys.stdin.buffer
    chunks = chunks_of(source)
    if not source.isatty():
        chunks = watched(chunks, "standard input", size_of(source))
    with place.open("wb") as target:
        for chunk in chunks:
            target.write(chunk)
    return place


def _tell(address: str) -> None:
    click.echo(f"storlet: waiting for a debugger (jdwp) on {address}", err=True)


def _refuse_contradictions(options: Mapping[str, Any]) -> None:
    if options["limits"] and not options["sandbox"]:
        raise ConfigurationError(["--limit needs a sandbox: leave out --no-sandbox"])
    if options["debug"] and options["sandbox"]:
        raise ConfigurationError(["--debug is for a run without a sandbox: add --no-sandbox"])


def _show(outcome: Outcome, seconds: float, *, is_isolated: bool) -> None:
    """Print what is not output: log, metadata, the error, and for people the cost."""
    click.echo(without_code_folder(legible(outcome.log)), err=True, nl=False)
    for name, value in outcome.metadata.items():
        click.echo(legible(f"metadata {name}: {value}"), err=True)
    for number, metadata in enumerate(outcome.further_metadata, 2):
        for name, value in metadata.items():
            click.echo(legible(f"metadata of output {number}: {name}: {value}"), err=True)
    if not outcome.is_ok:
        text = f"storlet: {outcome.code}: {outcome.message}"
        if outcome.traceback.strip() not in outcome.log + outcome.message:
            text += f"\n\n{outcome.traceback.rstrip()}"
        click.echo(explained(text), err=True)
    place = "in a sandbox" if is_isolated else "without a sandbox"
    summary.show(seconds, [place, *summary.usage_of(outcome.usage)])


def _results(subject: Subject, selected: str, *, is_isolated: bool) -> list[cases.Result]:
    with ExitStack() as opened:
        project = opened.enter_context(subject.with_cases())
        text = f"test {subject.document['name']}"
        if not is_isolated:
            source = subject.path
            # Each case would build another form.
            if languages.form_of(subject.document) is not Form.MODULES:
                source = opened.enter_context(bundle_of(subject))
            opened.enter_context(working(text, is_shared=True))
            return list(cases.results(project, selected, cases.InProcesses(project, source)))
        output = opened.enter_context(tempfile.TemporaryFile())
        node = opened.enter_context(LocalNode(output.fileno()))
        bundle = opened.enter_context(bundle_of(subject))
        opened.enter_context(working(text))
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


def _colour_of(line: str) -> str | None:
    """The colour of a line of a difference."""
    if line.startswith(("+++ ", "--- ")):
        return None
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


def _show_faults(found: list[cases.Result]) -> None:
    for each in found:
        if each.faults:
            click.secho(legible(f"\n{each.name}"), err=True, bold=sys.stderr.isatty())
            for fault in each.faults:
                for line in without_code_folder(fault).splitlines():
                    click.secho(f"  {in_line(line)}", err=True, fg=_colour_of(line))
            if each.log:
                log = without_code_folder(legible(each.log.rstrip()))
                click.echo("  log:\n  " + log.replace("\n", "\n  "), err=True)
