"""Faults of a rules object, collected while it is parsed, so that all are reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from rules.model import Finding, Place, Severity

#: The maximum length of a quotation from the text.
_QUOTED: Final = 60
#: Further faults are only counted: searching similar names for each of them would cost CPU time.
MAX_FAULTS: Final = 100


class Faults:
    """The errors found so far."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._more = 0

    @property
    def is_full(self) -> bool:
        return len(self._findings) >= MAX_FAULTS

    def add(self, code: str, place: Place, text: str, help_: str) -> None:
        if self.is_full:
            self._more += 1
            return
        self._findings.append(Finding(Severity.ERROR, code, place, text, help_))

    def __len__(self) -> int:
        return len(self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """In the order of the text."""
        found = sorted(self._findings, key=lambda each: (each.place.line, each.place.column))
        if self._more:
            text = f"there are {self._more:,} more faults"
            found.append(
                Finding(Severity.ERROR, "more", found[-1].place, text, "correct these first")
            )
        return tuple(found)

    def suggestion(self, text: str, known: Iterable[str]) -> str:
        """:func:`suggestion`, without the search for similar names once the list is full."""
        return _all_of(list(known)) if self.is_full else suggestion(text, known)


def quoted(text: str) -> str:
    """``text`` in quotes, truncated for a fault."""
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "...")


def suggestion(text: str, known: Iterable[str]) -> str:
    """The help for an unknown name: the most similar known name, else all known names."""
    names = list(known)
    is_short = len(text) <= _QUOTED
    similar = difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.5) if is_short else []
    return f"did you mean {similar[0]!r}?" if similar else _all_of(names)


def _all_of(names: list[str]) -> str:
    return f"use one of {', '.join(names)}"
