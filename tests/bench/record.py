"""Writes the figures of a whole run into the table of ``SPECIFICATION.rst``, beside the promises.

The line above the table that begins with ``Measured`` receives the date, the machine and the
commit. The third column of each row receives the figures that the row names. They are labelled with
the differing parts of their names, or shown once where all are the same::

     - at most 1.20x
     - java 1.31x (short), python 1.18x
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.bench import promises
from tests.bench.figures import Figure

_MEASURED: Final = re.compile(r"^Measured [^\n]*(?:\n[^\n]+)*", re.MULTILINE)
NOTHING: Final = "not measured"
#: A promise of one percent needs more decimals than two.
_COARSE: Final = ".2f"
_FINE: Final = ".3f"


class NoWholeRun(ValueError):
    """The run does not cover all promises; a table must come from one run."""


def recorded(text: str, result: Mapping[str, Any]) -> str:
    """The specification's ``text`` with the figures of ``result`` (the content of the JSON file).

    Raises :class:`NoWholeRun` for a run of some rows, or of the quick plan.
    """
    figures = figures_of(result)
    rows = {promise.row for promise in promises.read(text)}
    missing = sorted(row for row in rows if f"row {row}" not in result["facts"])
    if missing or result["plan"]["name"] != "full":
        raise NoWholeRun(
            f"plan {result['plan']['name']}, without rows {', '.join(missing) or 'missing'}"
        )
    facts = result["facts"]
    line = f"Measured {result['at'][:10]} at {facts.get('commit', 'no commit')}, by ``make bench``: {facts['machine']}."
    section = promises.SECTION.search(text)
    if section is None or not _MEASURED.search(section[1]):
        raise NoWholeRun(
            "the specification has no section Speed with a line that begins with Measured"
        )
    changed = _MEASURED.sub(line, section[1], count=1)
    changed = promises.ROW.sub(lambda row: _with_figures(row, figures), changed)
    return text[: section.start(1)] + changed + text[section.end(1) :]


def figures_of(result: Mapping[str, Any]) -> list[Figure]:
    """The measured figures."""
    return [figure for figure in map(Figure.from_json, result["figures"]) if figure.treated]


def _with_figures(row: re.Match[str], figures: Sequence[Figure]) -> str:
    if row["text"] == "promise":
        return row[0]
    promise = promises.promise_of(row)
    told = [figure for figure in figures if promise.covers(figure.key)]
    values = [_cell_text(figure, promise) for figure in told]
    if len(set(values)) > 1:
        labels = _labels([figure.key for figure in told])
        values = [f"{label} {value}" for label, value in zip(labels, values, strict=True)]
    measured = ", ".join(dict.fromkeys(values)) or NOTHING
    before, after = row.start("measured") - row.start(), row.end("measured") - row.start()
    return row[0][:before] + measured + row[0][after:]


def _cell_text(figure: Figure, promise: promises.Promise) -> str:
    value, unit = figure.value().at, figure.shown_unit
    number = (
        f"{value:.0f}" if unit == "errors" else f"{value:{_FINE if promise.is_fine else _COARSE}}"
    )
    word = promise.judge(figure)
    # Mark promises that are not kept: a rounded number may look as if it kept the promise.
    mark = "" if word == promises.KEPT else f" ({word.lower()})"
    return f"{number}{'' if unit == 'x' else ' '}{unit}{mark}"


def _labels(keys: Sequence[str]) -> list[str]:
    """The parts of each name that differ from the others."""
    parts = [key.split(".") for key in keys]
    common = set.intersection(*map(set, parts)) if parts else set()
    return [" ".join(part for part in own if part not in common) for own in parts]
