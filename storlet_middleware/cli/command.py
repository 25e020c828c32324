"""The parts of a subcommand, its exit codes and its errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DONE: Final = 0
#: Success, but a problem was found.
NOT_WELL: Final = 1
#: Exit code of ``argparse`` for an invalid command line.
MISUSED: Final = 2
#: Failure: no node, no permission, no configuration.
NOT_DONE: Final = 3
INTERRUPTED: Final = 130


class CliError(Exception):
    """The command failed; ``str()`` is the whole message, printed without a traceback."""


@dataclass(frozen=True)
class Command:
    """One subcommand: ``declare`` adds its options, ``run`` returns the exit code."""

    name: str
    help: str
    description: str
    declare: Callable[[argparse.ArgumentParser], object]
    run: Callable[[argparse.Namespace], int]


def say(text: str = "") -> None:
    """Print a line of the result."""
    if sys.stdout is None:  # a shell can close it: `>&-`
        raise CliError("standard output is closed\n    help: send it to a file or a pipe")
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Print an error or progress to standard error, apart from the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
