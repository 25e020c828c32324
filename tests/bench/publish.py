"""Writes the figures of the recorded runs into the table of ``SPECIFICATION.rst``.

The paragraph above the table that begins with ``Measured`` lists the runs.  The third column of
each row receives the figures that the row names, labelled with the differing parts of their names,
or shown once where all are the same.  A figure of several machines is a range, and it is kept only
if all of them kept it::

     - at most 1.20x
     - java 1.15x to 1.31x (short), python 1.18x
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from tests.bench import promises, recorded
from tests.bench.promises import Promise
from tests.bench.recorded import Measured, RecordedRun

_RUNS: Final = re.compile(r"^Measured [^\n]*(?:\n[^\n]+)*", re.MULTILINE)
_NOTHING: Final = "not measured"
_WIDTH: Final = 100


def published(text: str, runs: Sequence[RecordedRun]) -> str:
    """The specification's ``text`` with the figures of ``runs``, which are sorted by time."""
    section = promises.SECTION.search(text)
    if section is None or not _RUNS.search(section[1]):
        raise ValueError(
            "SPECIFICATION.rst has no section Speed with a paragraph that begins with 'Measured'"
        )
    figures = recorded.by_figure(runs)
    changed = _RUNS.sub(lambda _: _list_of(runs), section[1], count=1)
    changed = promises.ROW.sub(lambda row: _with_figures(row, figures), changed)
    return text[: section.start(1)] + changed + text[section.end(1) :]


def _list_of(runs: Sequence[RecordedRun]) -> str:
    """The machines, and the days and commits of their runs."""
    machines: dict[str, dict[str, dict[str, None]]] = {}
    for run in runs:
        days = machines.setdefault(run.machine, {})
        days.setdefault(run.at[:10], {})[run.commit] = None
    words = "one machine" if len(machines) == 1 else f"{len(machines)} machines"
    sentences = [f"Measured by ``make bench`` on {words}."]
    for number, (name, days) in enumerate(machines.items(), 1):
        shown = ", ".join(f"{day} at {', '.join(commits)}" for day, commits in days.items())
        sentences.append(f"Machine {number}: {name} ({shown}).")
    return textwrap.fill(
        " ".join(sentences), _WIDTH, break_on_hyphens=False, break_long_words=False
    )


def _with_figures(row: re.Match[str], figures: Mapping[str, Sequence[Measured]]) -> str:
    if row["text"] == "promise":
        return row[0]
    promise = promises.promise_of(row)
    covered = {key: found for key, found in figures.items() if promise.covers(key)}
    values = [_cell_text(each, promise) for each in covered.values()]
    if len(set(values)) > 1:
        labels = _labels(list(covered))
        values = [f"{label} {value}" for label, value in zip(labels, values, strict=True)]
    measured = ", ".join(dict.fromkeys(values)) or _NOTHING
    before, after = row.start("measured") - row.start(), row.end("measured") - row.start()
    cell = textwrap.fill(measured, _WIDTH - 7).replace("\n", "\n       ")
    return row[0][:before] + cell + row[0][after:]


def _cell_text(found: Sequence[Measured], promise: Promise) -> str:
    """The range of a figure, such as ``1.15x to 1.23x (short)`` or ``0.70 to 0.80 s``."""
    unit = found[0].unit
    ends = min(each.value.at for each in found), max(each.value.at for each in found)
    digits = 0 if unit in {"errors", "calls"} else 3 if promise.is_fine else 2
    numbers = dict.fromkeys(f"{end:.{digits}f}{'x' if unit == 'x' else ''}" for end in ends)
    text = " to ".join(numbers) + ("" if unit == "x" else f" {unit}")
    word = max((promise.judge(each.value) for each in found), key=promises.ORDER.index)
    # Mark promises that are not kept: a rounded number may look as if it kept the promise.
    return text if word == promises.KEPT else f"{text} ({word.lower()})"


def _labels(keys: Sequence[str]) -> list[str]:
    """The parts of each name that differ from the others."""
    parts = [key.split(".") for key in keys]
    common = set.intersection(*map(set, parts)) if parts else set()
    return [" ".join(part for part in own if part not in common) for own in parts]
