"""The HTML report: one file with the table, the plots and the facts about the run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from tests.bench import promises
from tests.bench.background import RATE
from tests.bench.figures import Figure
from tests.bench.study import Seen, Study

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } .short { color: #b00020; font-weight: 600 }
.close { color: #8a6d00 } .kept { color: #1a7f37 } svg { max-width: 100%; height: auto } .note { color: #666; font-size: 13px }
"""
_HOW: Final = (
    "Plain and storlet requests alternate in the same run. A ratio is storlet / plain of the medians (or of what is named). "
    "In brackets: the middle 95% of ratios when pairs of neighbouring samples are drawn anew (bootstrap)."
)

_NO_PLOTS: Final = "<p>There are no plots: matplotlib is not installed.</p>"
_STUDY: Final = (
    "MD5 and SHA-256 of an object, by a storlet or by a client that gets the object. Points are the medians of the rounds, bars "
    "the least and the most of them; what a neighbour waits is the median of all rounds. With background: beside plain GETs and "
    f"PUTs of 10 KB by another account, the neighbour, {RATE} a second. 100 ms added: each byte takes 50 ms between clients and "
    "proxy, in either direction; the neighbour is near. All clients are in closed loops and have the same CPUs as the servers."
)


def render(result: Mapping[str, Any], promised: Sequence[promises.Promise]) -> str:
    """``result`` as it is in the JSON file."""
    figures = [Figure.from_json(found) for found in result["figures"]]
    verdicts = promises.verdicts(promised, figures)
    facts = "".join(
        f"<tr><td>{escape(key)}</td><td>{escape(text)}</td></tr>"
        for key, text in result["facts"].items()
    )
    faults = "".join(
        f"<p class=short>{escape(text)}</p>" for text in [*result["faults"], *result["short"]]
    )
    blocks = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Storlets: speed, {result['at']}</title>",
        f"<style>{_STYLE}</style><h1>What a storlet costs</h1><p>{result['at']}, plan <i>{result['plan']['name']}</i>. {_HOW}</p>",
        faults,
        "<h2>Figures</h2>",
        _table(figures, verdicts),
        "<h2>Plots</h2>",
        *_plots(figures, promised),
        *_study(result),
        f"<h2>The run</h2><table>{facts}</table></html>",
    ]
    return "\n".join(blocks)


def _table(figures: Sequence[Figure], verdicts: Mapping[str, promises.Verdict]) -> str:
    lines = ["<table><tr><th>figure<th>storlet<th>plain<th>ratio or value<th>promised</tr>"]
    for figure in figures:
        notes = f"<div class=note>{escape('; '.join(figure.notes))}</div>" if figure.notes else ""
        if not figure.treated:
            lines.append(f"<tr><td>{escape(figure.title)}{notes}<td colspan=4>not measured</tr>")
            continue
        own, plain = figure.sides()
        other = f"{plain:.2f} {figure.unit}" if plain is not None else ""
        verdict = verdicts.get(figure.key)
        said = (
            f"<td class={verdict.word.lower()}>{verdict.promise}: {verdict.word}"
            if verdict
            else "<td>"
        )
        lines.append(
            f"<tr><td>{escape(figure.title)}{notes}<td class=n>{own:.2f} {figure.unit}<td class=n>{other}"
            f"<td class=n>{figure.value().text(figure.shown_unit)}{said}</tr>"
        )
    return "\n".join([*lines, "</table>"])


def _study(result: Mapping[str, Any]) -> list[str]:
    """The section of the row ``study``, where it was run."""
    seen = result.get("raw", {}).get("study")
    if not seen:
        return []
    head = ["<h2>IBM's study</h2>", f"<p>{escape(_STUDY)}</p>"]
    if importlib.util.find_spec("matplotlib") is None:
        return [*head, _NO_PLOTS]
    from tests.bench import study_plots  # noqa: PLC0415 - needs matplotlib

    return [*head, *study_plots.all_of(Study([Seen.from_json(one) for one in seen]))]


def _plots(figures: Sequence[Figure], promised: Sequence[promises.Promise]) -> list[str]:
    """SVG pictures in the page; without matplotlib a line that states this."""
    if importlib.util.find_spec("matplotlib") is None:
        return [_NO_PLOTS]
    from tests.bench import plots  # noqa: PLC0415 - needs matplotlib

    return plots.all_of(figures, promised)
