"""Repeats a command whenever one of its files is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from storlet_client.cli import failure
from storlet_client.cli.output import legible
from storlet_client.cli.progress import ended
from storlet_client.errors import StorletsError

_SECONDS = 0.5

#: Time of change and size, by file.
State = Mapping[Path, tuple[int, int]]


def at_each_save(command: Callable[[], None], files: Callable[[], Iterable[Path]]) -> None:
    """Run ``command`` now and after each change of ``files``, until the user interrupts it.

    A fault of a run is printed, and the next change runs the command again.

    :param files: the files to watch; those that do not exist do not count.
    """
    seen: State | None = None
    missing: State | None = None
    try:
        while True:
            found = _state(files())
            # Editors replace files: a deletion counts if the file is still missing one pause later.
            if seen is not None and seen.keys() - found.keys() and found != missing:
                missing = found
            elif found != seen:
                seen = found
                _run(command)
                files_text = "1 file" if len(found) == 1 else f"{len(found)} files"
                click.echo(f"watching {files_text}: Ctrl-C ends it", err=True)
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        click.echo("no longer watching", err=True)


def _state(files: Iterable[Path]) -> State:
    found = {}
    for file in files:
        try:
            facts = file.stat()
        except OSError:
            continue
        found[file] = (facts.st_mtime_ns, facts.st_size)
    return found


def _run(command: Callable[[], None]) -> None:
    try:
        with ended():
            command()
    except StorletsError as error:
        for line in failure.lines_of(error):
            click.echo(line, err=True)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        click.echo(legible(f"storlet: {text}"), err=True)
