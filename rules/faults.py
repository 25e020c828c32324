"""What is wrong with a rules object, gathered while it is read, so that all of it is told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from rules.model import Finding, Place, Severity

#: A fault quotes no more of what was uploaded.
_QUOTED: Final = 60
#: More are only counted: a text full of mistakes must not keep a proxy busy with naming what is nearest to each.
MAX_FAULTS: Final = 100


class Faults:
    """The errors found so far."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._more = 0

    @property
    def is_full(self) -> bool:
        return len(self._findings) >= MAX_FAULTS

    def add(self, code: str, place: Place, text: str, help: str) -> None:  # noqa: A002 - as the finding calls it
        if self.is_full:
            self._more += 1
            return
        self._findings.append(Finding(Severity.ERROR, code, place, text, help))

    def __len__(self) -> int:
        return len(self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """In the order of the text."""
        found = sorted(
            self._findings, key=lambda finding: (finding.place.line, finding.place.column)
        )
        if self._more:
            text = f"there are {self._more:,} more faults"
            found.append(Finding(Severity.ERROR, "more", found[-1].place, text, "mend these first"))
        return tuple(found)

    def among(self, text: str, known: Iterable[str]) -> str:
        """As the function below, without looking for the nearest when nobody will see it."""
        return _all_of(list(known)) if self.is_full else among(text, known)


def quoted(text: str) -> str:
    """As it stands in a fault."""
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "...")


def among(text: str, known: Iterable[str]) -> str:
    """How to mend an unknown name: the nearest known one, else all of them."""
    names = list(known)
    close = (
        difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.5)
        if len(text) <= _QUOTED
        else []
    )
    return f"did you mean {close[0]!r}?" if close else _all_of(names)


def _all_of(names: list[str]) -> str:
    return f"there are {', '.join(names)}"
