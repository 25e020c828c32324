"""``init``, ``build``, ``versions`` and ``rollback``: projects and their bundles."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from storlet_client.builder import bundled_source, bundler, template, wheels
from storlet_client.builder.project import ProjectError
from storlet_client.bundle import languages
from storlet_client.cli import completion
from storlet_client.cli.context import OUTPUT, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, legible, show_rows
from storlet_client.cli.progress import building
from storlet_client.diagnosis.check import command
from storlet_client.errors import ConfigurationError
from storlet_client.operations import version_before
from storlet_client.storlets import Storlets

_COLUMNS = ("number", "version", "current", "bytes", "time")
_MOST_NAMES = 20
"""Files of the source that a build lists; of more it gives the number."""


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example(
        "init",
        examples="storlet init thumb --template image\n"
        "storlet init totals --language java --template csv\n"
        "storlet init sum --language native --template merge",
    )
    @click.argument("name")
    @click.option(
        "--language",
        type=click.Choice(languages.NAMES),
        default=languages.NAMES[0],
        show_default=True,
        help="Language of the storlet.",
    )
    @click.option(
        "--template", "kind", type=click.Choice(template.kinds()), default=template.FILTER,
        show_default=True, help="Work of the storlet: filter lines, keep columns of CSV, make"
        " thumbnails, merge sorted objects, read a table in the store.",
    )  # fmt: skip
    def init(name: str, language: str, kind: str) -> None:
        """Make a folder with a storlet that works.

        It has storlet.toml, source, and test cases with samples. A native storlet is a program in
        Rust here; those of image (PPM and PGM) and service are in C. Change build and files of
        storlet.toml for another language.
        """
        try:
            folder = template.make(Path(name), language, kind)
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
        click.echo(legible(f"made {folder}/"))
        click.echo(legible(f"build it: {_command('build', folder)}"), err=True)

    @group.example("build", examples="storlet build\nstorlet build thumb -o dist")
    @click.argument("folder", default=".", type=click.Path(path_type=Path))
    @click.option("-o", "--output", type=OUTPUT, help="Folder; FOLDER/dist by default.")
    @click.option("--python", default="3.11", show_default=True, help="Python of the sandbox.")
    @click.option("--machine", default="x86_64", show_default=True, help="CPU of the nodes.")
    def build(folder: Path, output: str | None, python: str, machine: str) -> None:
        """Build the bundle of a project: one file with code and libraries.

        pip or Maven resolve the libraries once, and a lock file (storlet.requirements.lock,
        storlet.maven.lock) is written; with this file the same project gives the same bytes.
        Java needs a JDK, and Maven if the project has libraries. Native storlets are built by the
        command of storlet.toml, and the bundle has the files that it names.
        """
        sandbox = wheels.Sandbox(python, machine)
        try:
            with building(folder):
                bundle = bundler.build(folder, Path(output or folder / "dist"), sandbox)
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
        # A script gets the path as it is; a terminal, without its control characters.
        click.echo(legible(str(bundle)) if sys.stdout.isatty() else os.fsencode(bundle))
        if source := bundled_source.collected(bundle):
            click.echo(legible(f"source in it: {_listed(source)}"), err=True)
        click.echo(legible(f"deploy it: {_command('deploy', bundle)}"), err=True)

    @group.example("versions", examples="storlet versions thumb")
    @with_storlets
    @click.argument("name", shell_complete=completion.storlet)
    @format_option
    def versions(storlets: Storlets, name: str, form: str) -> None:
        """List the deployed versions of a bundle; run one as NAME@NUMBER."""
        rows = [asdict(each) for each in storlets.versions(name)]
        show_rows(rows, _COLUMNS, form, "no versions")

    @group.example("rollback", examples="storlet rollback thumb\nstorlet rollback thumb 3")
    @with_storlets
    @click.argument("name", shell_complete=completion.storlet)
    @click.argument("number", type=click.IntRange(1), required=False)
    def rollback(storlets: Storlets, name: str, number: int | None) -> None:
        """Make a version of a bundle the current one, at once and for all requests.

        Without NUMBER it is the version that was current before the last deployment or rollback;
        a second rollback goes to the one before that. All versions stay: 'storlet versions NAME'
        lists them.
        """
        if number is not None:
            storlets.roll_back(name, number)
            click.echo(legible(f"{name}: version {number} is current"))
            return
        kept = storlets.versions(name)
        wanted = version_before(name, kept)
        storlets.roll_back(name, wanted.number)
        replaced = next(each for each in kept if each.current)
        now, then = (f"version {each.number} ({each.version})" for each in (wanted, replaced))
        click.echo(legible(f"{name}: {now} is current, and no longer {then}"))


def _listed(names: list[str]) -> str:
    """``names`` on one line."""
    further = len(names) - _MOST_NAMES
    end = [f"and {further} more (unzip -l lists them)"] if further > 0 else []
    return ", ".join([*names[:_MOST_NAMES], *end])


def _command(verb: str, path: Path) -> str:
    """A command line on a file, with quotes where a shell needs them."""
    # A name that begins with a dash would be an option.
    end = ["--"] if str(path).startswith("-") else []
    return command("storlet", verb, *end, str(path))
