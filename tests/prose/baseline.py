"""The committed numbers of findings that are tolerated, by file; they can only shrink.

A file with more findings than its number fails the check, and so does a file with fewer, until
``--write-baseline`` has lowered the number. A file that is not listed has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAME: Final = ".prose-baseline"
_HEADER: Final = """\
# Findings of the prose linter that are still tolerated: path and number. They can only shrink:
# after fixing some, run `python3 -m tests.prose --write-baseline`. See docs/developer.
"""


def read(path: Path) -> dict[str, int]:
    """The numbers by path; empty if there is no such file."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if line.strip() and not line.startswith("#")]
    return {name: int(number) for name, number in rows}


def write(path: Path, counts: Mapping[str, int]) -> None:
    """Write the numbers of all files that have any."""
    rows = [f"{name} {number}\n" for name, number in sorted(counts.items()) if number]
    path.write_text(_HEADER + "".join(rows), encoding="utf-8")


def lowered(old: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """The new baseline: each number as low as the findings allow, and none raised."""
    return {name: min(number, counts.get(name, 0)) for name, number in old.items()}


def above(old: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Files with more findings than are tolerated."""
    return sorted(name for name, number in counts.items() if number > old.get(name, 0))


def below(old: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Files with fewer findings than the baseline allows, removed files included."""
    return sorted(name for name, number in old.items() if counts.get(name, 0) < number)
