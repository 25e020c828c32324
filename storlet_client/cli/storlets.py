"""``list``, ``show``, ``deploy``, ``delete`` and ``download``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from storlet_client.builder import bundled_source, bundler, plain, rights, wheels
from storlet_client.builder.project import ProjectError
from storlet_client.builder.sources import Sources
from storlet_client.bundle import archive, manifest
from storlet_client.cli import completion
from storlet_client.cli.context import FILLED, OUTPUT, pairs, with_storlets
from storlet_client.cli.groups import Group
from storlet_client.cli.output import format_option, legible, show_one, show_rows
from storlet_client.cli.progress import building, watched, working, written
from storlet_client.cli.watch import at_each_save
from storlet_client.content import content_of
from storlet_client.diagnosis.check import command
from storlet_client.errors import ConfigurationError, NotThere, Refused
from storlet_client.local import subject
from storlet_client.operations import BundleVersion, Manifest, Storlet, declared_changes
from storlet_client.overview import ALL_COLUMNS, COLUMNS, Overview
from storlet_client.storlets import Storlets

_FORBIDDEN = 403


def declare(group: Group) -> None:
    """Add the commands to ``group``."""

    @group.example("list", examples="storlet list\nstorlet list -f json")
    @with_storlets
    @format_option
    def list_(storlets: Storlets, form: str) -> None:
        """List the storlets with version, limits, access, and runs of the last 24 hours.

        ACCESS are the readers of the container with the storlets, and the grants. RUNS is '-' if
        the account does not record all runs ('storlet enable --records all').
        """
        with working("list"):
            found = storlets.overview()
        columns: Sequence[str] = ALL_COLUMNS
        if form == "table":  # which has units
            rows = [{**row.cells, "bytes": row.storlet.size} for row in found.rows]
            columns = ["bytes" if each == "size" else each for each in COLUMNS]
        else:
            rows = [row.columns if form == "csv" else row.document for row in found.rows]
        empty = "no storlets: deploy one with 'storlet deploy FILE'"
        show_rows(rows, columns, form, empty, _failures_red)
        _show_notes(found)

    @group.example("show", examples="storlet show csv_filter.py")
    @with_storlets
    @click.argument("name", shell_complete=completion.storlet)
    @format_option
    def show(storlets: Storlets, name: str, form: str) -> None:
        """Show one storlet with version, limits, access, and runs of the last 24 hours."""
        with working(f"show {name}"):
            found = storlets.overview(name)
        row = found.rows[0]
        texts = {"limits": dict(row.limits)} if form == "table" else {}
        show_one({**row.document, **texts}, form)
        _show_notes(found)

    @group.example(
        "deploy",
        examples="storlet deploy\n"
        "storlet deploy csv_filter.py\n"
        "storlet deploy dist/thumb-0.1.0.storlet\n"
        "storlet deploy thumb --watch\n"
        "storlet deploy thumb.jar --main org.example.Thumb --dependency imaging.jar\n"
        "storlet deploy tool.py --dependency ffmpeg:0700 --limit memory=256M",
    )
    @with_storlets
    @click.argument(
        "file",
        default=".",
        type=click.Path(exists=True, path_type=Path),
        metavar="[FILE|PROJECT]",
    )
    @click.option(
        "--main",
        type=FILLED,
        help="module.Class, or a Java class; the only class of a Python file.",
    )
    @click.option("--name", type=FILLED, help="Name of the storlet; the name of the file.")
    @click.option("--language", help="Language; by the suffix of the file.")
    @click.option("--language-version", default="", help="Version of the language.")
    @click.option(
        "--dependency",
        "dependencies",
        multiple=True,
        metavar="FILE[:MODE]",
        help="File beside the storlet's, such as lib.py or tool:0700; a name without such a file"
        " is a dependency that is uploaded already. Repeat it for several.",
    )
    @click.option(
        "--limit", "limits", multiple=True, metavar="NAME=VALUE", help="Limit, such as memory=256M."
    )
    @click.option("--input-type", "inputs", multiple=True, help="Accepted content type.")
    @click.option("--output-type", default="", help="Content type of the output.")
    @click.option(
        "--check/--no-check",
        default=None,
        help="Have the cluster load the code before it takes effect; the default if it can.",
    )
    @click.option("--watch", is_flag=True, help="Deploy again at each save, until interrupted.")
    def deploy(
        storlets: Storlets, file: Path, *, check: bool | None, watch: bool, **options: Any
    ) -> None:
        """Upload a storlet and its dependencies, or a bundle, and print what changed.

        Of a project, by default the current folder, the bundle is built first, in PROJECT/dist. The
        new code is in use for each request that begins after this command. If the cluster cannot
        load it, the old code stays in use. --watch repeats this at each save of the file and its
        dependencies, or of a source file of the project, also after a fault; Ctrl-C ends it with
        exit code 0.
        """
        once, files = _deployment(storlets, file, options, check)
        if watch:
            at_each_save(once, files)
        else:
            once()

    @group.example("delete", examples="storlet delete csv_filter.py")
    @with_storlets
    @click.argument("name", shell_complete=completion.storlet)
    def delete(storlets: Storlets, name: str) -> None:
        """Delete a storlet; its dependencies stay."""
        storlets.delete(name)
        click.echo(legible(f"deleted {name}"))

    @group.example(
        "download",
        examples="storlet download csv_filter.py -o csv_filter.py\n"
        "storlet download thumb@3 -o thumb.storlet\n"
        "storlet download thumb --source thumb",
    )
    @with_storlets
    @click.argument("name", shell_complete=completion.storlet)
    @click.option("-o", "--output", type=OUTPUT, help="File; '-' is standard output, the default.")
    @click.option(
        "--source", type=OUTPUT, metavar="FOLDER", help="New folder for the project of a bundle."
    )
    def download(storlets: Storlets, name: str, output: str | None, source: str | None) -> None:
        """Download the file of a storlet; NAME@NUMBER is a version of a bundle.

        --source gives the project that a bundle was built from: storlet.toml, source, test cases
        and lock, without libraries.
        """
        _download(storlets, name, output, source)


def _download(storlets: Storlets, name: str, output: str | None, source: str | None) -> None:
    if source is None:
        place = output or "-"
        with storlets.download(name) as stream, written(place) as file:
            for chunk in watched(stream, name, stream.length, place):
                file.write(chunk)
    elif output is None:
        _download_project(storlets, name, Path(source))
    else:
        raise ConfigurationError(["give -o FILE or --source FOLDER, not both"])


def _download_project(storlets: Storlets, name: str, folder: Path) -> None:
    """Make the project of a bundle in a new folder."""
    if os.path.lexists(folder):  # before a long download
        raise ConfigurationError([bundled_source.fault_of_existing(folder)])
    user = rights.owner_above(folder)

    def unpack() -> str:
        bundled_source.unpack(bundle, folder)
        return ""

    with TemporaryDirectory() as work:
        rights.give(Path(work), user)
        bundle = Path(work, "bundle")
        with storlets.download(name) as stream, bundle.open("wb") as file:
            for chunk in watched(stream, name, stream.length, str(bundle)):
                file.write(chunk)
        if not subject.is_bundle(bundle):
            raise ConfigurationError([f"{name} is no bundle: only a bundle has source"])
        try:
            subject.read(bundle)
            rights.with_rights_of(user, unpack)
        except ProjectError as error:
            raise ConfigurationError(error.faults) from None
    click.echo(legible(f"made {folder}/"))
    click.echo(legible(f"build it: {command('storlet', 'build', str(folder))}"), err=True)


def _failures_red(column: str, text: str) -> str:
    return "red" if column == "failures" and text not in {"0", "-"} else ""


def _show_notes(found: Overview) -> None:
    for note in found.notes:
        click.echo(note, err=True)


def _deployment(
    storlets: Storlets, file: Path, options: Mapping[str, Any], check: bool | None
) -> tuple[Callable[[], None], Callable[[], Iterable[Path]]]:
    """The deployment of a file, a bundle or a project, and the files that it is made of."""
    if file.is_dir():
        _refuse_options_of_files(options)
        sources = Sources(file)
        return lambda: _deploy_bundle(storlets, _built(file, sources), check), sources.files
    if file.suffix == archive.SUFFIX:
        _refuse_options_of_files(options)
        return lambda: _deploy_bundle(storlets, file, check), lambda: [file]
    files = [file, *filter(Path.is_file, plain.places(file.parent, options["dependencies"]))]
    return lambda: _deploy_file(storlets, file, options, check), lambda: files


def _deploy_file(
    storlets: Storlets, file: Path, options: Mapping[str, Any], check: bool | None
) -> None:
    """Upload a plain storlet and its dependencies."""
    name, code = options["name"] or file.name, content_of(file)
    language = plain.language(options["language"], name)
    needed = plain.dependencies(file.parent, options["dependencies"])
    manifest = Manifest(
        main=options["main"] or plain.entry_point(file, name, language, code),
        language=language,
        dependencies=needed.names,
        language_version=options["language_version"],
        input_types=options["inputs"],
        output_type=options["output_type"],
        limits=_limits(options["limits"]),
    )
    files = {each: (content_of(path), mode) for each, (path, mode) in needed.files.items()}
    deployed = storlets.deploy(name, code, manifest, files, check=check)
    click.echo(legible(f"deployed {name}"))
    for line in deployed.changes or ("unchanged",):
        click.echo(legible(f"  {line}"))
    click.echo(legible(f"run it: storlet invoke {name} CONTAINER/OBJECT"), err=True)


def _limits(words: Sequence[str]) -> dict[str, str]:
    """The limits of ``--limit``.

    :raises ConfigurationError: one is unknown; the cluster would take it for metadata of the user.
    """
    found = pairs(words, "--limit")
    known = [*manifest.schema()["properties"]["limits"]["properties"]]
    every = f"; all are {', '.join(known)}"
    faults = [
        f"--limit {name}: unknown limit{manifest.nearest(name, known) or every}"
        for name in found
        if name.lower() not in known
    ]
    if faults:
        raise ConfigurationError(faults)
    return found


#: The options of a plain file whose values have other names.
_OPTIONS = {"dependencies": "dependency", "limits": "limit", "inputs": "input-type"}


def _refuse_options_of_files(options: Mapping[str, Any]) -> None:
    given = [_OPTIONS.get(key, key.replace("_", "-")) for key, value in options.items() if value]
    if given:
        raise ConfigurationError(
            [f"--{option}: a bundle has this in its manifest" for option in sorted(given)]
        )


def _built(folder: Path, sources: Sources) -> Path:
    """The new bundle of a project."""
    try:
        with sources.while_built(), building(folder):
            bundle = bundler.build(folder, folder / "dist", wheels.Sandbox())
    except ProjectError as error:
        raise ConfigurationError(error.faults) from None
    click.echo(legible(f"built {bundle}"), err=True)
    return bundle


def _deploy_bundle(storlets: Storlets, file: Path, check: bool | None) -> None:
    """Check a bundle here, before it is uploaded, and upload it under the name of its manifest."""
    with file.open("rb") as packed:
        try:
            manifest = archive.verify(packed, archive.Bounds()).manifest
        except archive.BundleError as error:
            raise ConfigurationError([f"{file}: {fault}" for fault in error.faults]) from None
    name = manifest["name"]
    code = file.read_bytes()
    before = _current(storlets, name)
    number = storlets.deploy_bundle(name, code, check=check)
    click.echo(legible(f"deployed {name} {manifest['version']} as version {number}"))
    if before is None:
        click.echo(legible(f"  new: {len(code):,} bytes of {manifest['language']}"))
    else:
        old, stored = before
        now = storlets.show(name + archive.SUFFIX)
        # A cluster of an older release stores the bundle without its source.
        is_same = old.number == number or (stored.etag and stored.etag == now.etag)
        changes = [] if is_same else _code_changes(old, code, now.size, manifest)
        changes += declared_changes(stored, now)
        for line in changes or ["unchanged"]:
            click.echo(legible(f"  {line}"))
    click.echo(legible(f"run it: storlet invoke {name} CONTAINER/OBJECT"), err=True)


def _current(storlets: Storlets, name: str) -> tuple[BundleVersion, Storlet] | None:
    """The version that a deployment replaces; ``None`` if there is none, or none to be read."""
    try:
        version = next((each for each in storlets.versions(name) if each.current), None)
        return (version, storlets.show(name + archive.SUFFIX)) if version else None
    except NotThere:
        return None
    except Refused as error:
        # The right to write the container does not include that to read it.
        if error.status != _FORBIDDEN:
            raise
        return None


def _code_changes(
    before: BundleVersion, code: bytes, size: int, manifest: Mapping[str, Any]
) -> list[str]:
    """The differences of a bundle, each as one line, without those of what it declares.

    :param size: of what the cluster stores of ``code``.
    """
    if before.sha256 == hashlib.sha256(code).hexdigest():
        return []
    lines = [f"code: {before.bytes:,} -> {size or len(code):,} bytes"]
    if before.version != manifest["version"]:
        lines.append(f"version: {before.version} -> {manifest['version']}")
    return lines
