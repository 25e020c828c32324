"""What is wrong with a rules object, gathered while it is read, so that all of it is told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rules.model import Finding, Place, Severity

#: A fault quotes no more of what was uploaded.
_QUOTED = 60


class Faults:
    """The errors found so far."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []

    def add(self, code: str, place: Place, text: str, help: str) -> None:  # noqa: A002 - as the finding calls it
        self._findings.append(Finding(Severity.ERROR, code, place, text, help))

    def __len__(self) -> int:
        return len(self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """In the order of the text."""
        return tuple(sorted(self._findings, key=lambda found: (found.place.line, found.place.column)))


def quoted(text: str) -> str:
    """As it stands in a fault."""
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "...")


def among(text: str, known: Iterable[str]) -> str:
    """How to mend an unknown name: the nearest known one, else all of them."""
    names = list(known)
    close = difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
