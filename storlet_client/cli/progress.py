"""Progress on a terminal, and files that appear only when they are complete."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    FileSizeColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from storlet_client.builder.files import replacement
from storlet_client.cli.output import in_line

#: Its name in errors.
STANDARD_OUTPUT = "standard output"


def watched(
    chunks: Iterable[bytes], text: str, total: int | None, output: str = ""
) -> Iterator[bytes]:
    """``chunks``; a terminal on standard error shows bytes, rate and time left.

    :param total: bytes in all, if they are known.
    :param output: the file that gets them; on a terminal it would mix with the progress.
    """
    is_mixed = output == "-" and sys.stdout.isatty()
    if is_mixed or not sys.stderr.isatty():
        yield from chunks
        return
    known = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    unknown = (FileSizeColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(unknown if total is None else known),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(in_line(text), total=total)
        for chunk in chunks:
            yield chunk
            progress.update(task, advance=len(chunk))


def size_of(file: BinaryIO) -> int | None:
    """The bytes of an open regular file; of a pipe, they are unknown."""
    facts = os.fstat(file.fileno())
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def chunks_of(file: BinaryIO, size: int = 1 << 18) -> Iterator[bytes]:
    """The content of an open file."""
    while True:
        chunk = file.read(size)
        if not chunk:
            return
        yield chunk


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """A file to write, which replaces ``path`` if the block succeeds; ``-`` is standard output."""
    try:
        with _opened(path) as file:
            yield file
    except OSError as error:
        if error.filename is None:  # of a write
            error.filename = path if path != "-" else STANDARD_OUTPUT
        raise


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = Path(path)
    if place.exists() and not place.is_file():
        # A device or a pipe cannot be replaced.
        with place.open("wb") as file:
            yield file
        return
    with replacement(place) as file:
        yield file
