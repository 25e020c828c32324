"""What a subcommand is, and how it says that it cannot go on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DONE: Final = 0
#: It was done, and what was found is not as it should be.
NOT_WELL: Final = 1
#: ``argparse`` ends with this for words that it does not know.
MISUSED: Final = 2
#: It could not be done: no node, no permission, no configuration.
NOT_DONE: Final = 3
INTERRUPTED: Final = 130


class CliError(Exception):
    """The command cannot go on; ``str()`` is the whole explanation and is shown without a traceback."""


@dataclass(frozen=True)
class Command:
    """One subcommand: ``declare`` adds its options, ``run`` does it and answers the exit code."""

    name: str
    help: str
    description: str
    declare: Callable[[argparse.ArgumentParser], object]
    run: Callable[[argparse.Namespace], int]


def say(text: str = "") -> None:
    """To whoever reads the result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """An error, or a word on what takes so long; kept apart from the result, which a script may read."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
