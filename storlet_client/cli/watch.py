"""Repeats a command whenever one of its files is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from storlet_client.cli.output import legible
from storlet_client.errors import StorletsError

_SECONDS = 0.5


def at_each_save(command: Callable[[], None], files: Sequence[Path]) -> None:
    """Run ``command`` now and after each change of ``files``, until the user interrupts it.

    A fault of a run is printed, and the next change runs the command again.  Editors replace files,
    so a file may be missing for a moment.
    """
    seen: tuple[tuple[int, int], ...] | None = None
    try:
        while True:
            found = _state(files)
            if found is not None and found != seen:
                seen = found
                _run(command)
                click.echo(f"watching {len(files)} files: Ctrl-C ends it", err=True)
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        click.echo("no longer watching", err=True)


def _state(files: Sequence[Path]) -> tuple[tuple[int, int], ...] | None:
    """Time of change and size of each file; ``None`` while one is missing."""
    try:
        found = [file.stat() for file in files]
    except OSError:
        return None
    return tuple((each.st_mtime_ns, each.st_size) for each in found)


def _run(command: Callable[[], None]) -> None:
    try:
        command()
    except (StorletsError, OSError) as error:
        click.echo(legible(f"storlet: {error}"), err=True)
