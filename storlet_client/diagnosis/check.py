"""One result of the diagnosis."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

OWNER = "contact the owner of the account"
OPERATOR = "contact the operator of the cluster"


@dataclass(frozen=True)
class Check:
    """One result of the diagnosis.

    :param remedy: the command that repairs it; empty if it is well.
    """

    subject: str
    is_well: bool
    text: str
    remedy: str = ""


def command(*words: str) -> str:
    """A command line, with quotes where a shell needs them."""
    return " ".join(map(shlex.quote, words))


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that resembles ``name``; empty if none does."""
    return next(iter(difflib.get_close_matches(name, list(known), 1)), "")


def suggestion(name: str) -> str:
    """The end of a text that names the nearest name, if there is one."""
    return f" (did you mean {name}?)" if name else ""
