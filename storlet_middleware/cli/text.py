"""Tables, durations and untrusted names, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from storlet_middleware.sandboxd.wording import plain

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))
_NAME_MAX: Final = 60


def name(text: str) -> str:
    """A name that a tenant chose, without control sequences."""
    return plain(text, _NAME_MAX)


def duration(seconds: float) -> str:
    """``12 s``, ``3 min``, ``2 h``, ``5 d``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> str:
    """A table with columns as wide as their content; those in ``right`` are right-aligned."""
    cells = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = (
        "  ".join(
            cell.rjust(width) if title in right else cell.ljust(width)
            for title, cell, width in zip(head, row, widths, strict=True)
        ).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def legible(text: str) -> str:
    """One line of text in any script, without control sequences and changes of direction."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )
