"""The plots of the report, as SVG.  Only this module and :mod:`tests.bench.study_plots` use
matplotlib."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure as Picture

from tests.bench.figures import Figure
from tests.bench.promises import Promise
from tests.bench.rows import ROWS
from tests.bench.stages import STAGES, SUM

mpl.rcParams["svg.fonttype"] = "none"
# Equal figures give equal files.
mpl.rcParams["svg.hashsalt"] = "storlets"

_OWN, _PLAIN, _PROMISE = "#0b6e99", "#7a7a7a", "#c4320a"
WIDTH: Final = 9.0
#: Rows whose samples are shown as distributions as well.
_DISTRIBUTED: Final = ("latency", "traffic")
#: Rows with plots of their own (:mod:`tests.bench.study_plots`).
_APART: Final = ("study",)
#: The two sides of rows that do not compare a storlet with a plain request.
_COMPARED: Final = {
    "breakdown": "with probes / without",
    "isolation": "in a sandbox / without one",
    "fixity": "storlet / client that hashes",
    "scan": "storlet / client that filters",
    "sql": "storlet / client with DuckDB",
    "select": "S3 Select / DuckDB on the file",
    "binary": "storlet / client that filters",
    "library": "storlet / program on the file",
    "nodes": "a node among several / a node alone; 1 is linear",
    "traffic": "with the filter / without it",
    "rules": "with rules asked / without",
    "records": "with records / without",
    "follow": "while another account is followed / while none is",
    "tenants": "longest wait / usual wait of a first call",
}
_KEY: Final = "point: this run; bar: middle 95% of the bootstrap; red: promised"
#: Ticks of a logarithmic axis of ratios: all, and fewer where the axis spans more than this.
_TICKS: Final = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5)
_FEW_TICKS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
_SPAN: Final = 8
#: A right end of an axis beyond the last point.
_MARGIN: Final = 1.1
#: A digit's width as a share of the longest bar: pieces shorter than their number are not labelled.
_DIGIT: Final = 0.009


def all_of(figures: Sequence[Figure], promised: Sequence[Promise]) -> list[str]:
    """Pictures of every row, ratios before other values; figures without a visible length (no
    errors) are in the table only."""
    pictures = []
    for row, members in groupby(figures, lambda figure: figure.key.partition(".")[0]):
        if row in _APART:
            continue
        measured = [figure for figure in members if any(figure.treated)]
        ratios = [figure for figure in measured if figure.is_ratio]
        values = [figure for figure in measured if not figure.is_ratio]
        if row == "breakdown" and values:
            pictures.append(_stacks(row, values))
            values = []
        for is_rate in (True, False):
            alike = [figure for figure in ratios if figure.is_rate == is_rate]
            pictures += [_ratios(row, alike, promised)] if alike else []
        units = dict.fromkeys(figure.unit for figure in values)
        pictures += [
            _values(row, [one for one in values if one.unit == unit], promised) for unit in units
        ]
        if row in _DISTRIBUTED:
            pictures += _distributions(row, ratios)
    return pictures


def promised_ratios(figures: Sequence[Figure], promised: Sequence[Promise]) -> str:
    """One picture of all promised ratios, in two parts: less is better, and more is better."""
    covered = [
        one
        for one in figures
        if one.is_ratio and any(promise.covers(one.key) for promise in promised)
    ]
    halves = [[one for one in covered if one.is_rate == is_rate] for is_rate in (False, True)]
    heights = [len(half) + 3 for half in halves]
    picture = Picture(figsize=(WIDTH, 0.27 * sum(heights)), layout="constrained")
    for axes, half, better in zip(
        picture.subplots(2, height_ratios=heights), halves, ("less", "more"), strict=True
    ):
        axes.axvline(1.0, color=_PLAIN, linewidth=1)
        _points(axes, half, promised)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        ticks = [
            tick for tick in (_TICKS if high < low * _SPAN else _FEW_TICKS) if low <= tick <= high
        ]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(f"{better} is better", loc="left")
    axes.set_xlabel(f"ratio to the same without a storlet, in the same run\n{_KEY}")
    return svg(picture)


def _ratios(row: str, figures: Sequence[Figure], promised: Sequence[Promise]) -> str:
    picture, axes = _axes(len(figures))
    axes.axvline(1.0, color=_PLAIN, linewidth=1)
    _points(axes, figures, promised)
    units = ", ".join(dict.fromkeys(figure.unit for figure in figures))
    better = "more" if figures[0].is_rate else "less"
    axes.set_xlabel(
        f"{_COMPARED.get(row, 'storlet / plain Swift')} (ratio of {units}, {better} is better)\n{_KEY}"
    )
    axes.set_title(_title(row), loc="left")
    return svg(picture)


def _values(row: str, figures: Sequence[Figure], promised: Sequence[Promise]) -> str:
    picture, axes = _axes(len(figures))
    _points(axes, figures, promised)
    better = "more" if figures[0].is_rate else "less"
    axes.set_xlim(0, axes.get_xlim()[1] * _MARGIN)
    axes.set_xlabel(f"{figures[0].unit} ({better} is better)\n{_KEY}")
    axes.set_title(_title(row), loc="left")
    return svg(picture)


def _title(row: str) -> str:
    return next((f"{row}: {one.title}" for one in ROWS if one.name == row), row)


def _points(axes: Any, figures: Sequence[Figure], promised: Sequence[Promise]) -> None:
    for place, figure in enumerate(figures):
        value = figure.value()
        error = [[max(0.0, value.at - value.low)], [max(0.0, value.high - value.at)]]
        axes.errorbar(value.at, place, xerr=error, fmt="o", color=_OWN, capsize=3)
        for bound in _bounds(figure, promised):
            axes.plot([bound, bound], [place - 0.35, place + 0.35], color=_PROMISE, linewidth=2)
    axes.set_yticks(range(len(figures)), [figure.title for figure in figures])
    axes.set_ylim(len(figures) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)


def _bounds(figure: Figure, promised: Iterable[Promise]) -> list[float]:
    covering = [promise for promise in promised if promise.covers(figure.key)]
    return [
        bound
        for promise in covering
        for bound in (promise.low, promise.high)
        if abs(bound) != float("inf")
    ]


def _distributions(row: str, figures: Sequence[Figure]) -> list[str]:
    """Cumulative distributions of the figures that are represented by their median."""
    medians = [figure for figure in figures if figure.quantile == 0.5]
    if row == "traffic":
        return [
            _distribution([figure], f"{row}: all samples, {figure.title.partition(',')[0]}")
            for figure in medians
        ]
    return [_distribution(medians, f"{row}: all samples")] if medians else []


def _distribution(figures: Sequence[Figure], title: str) -> str:
    own, other = ("with the filter", "without it") if len(figures) == 1 else ("", "plain Swift")
    picture = Picture(figsize=(WIDTH, 4.0), layout="constrained")
    axes = picture.subplots()
    axes.ecdf(figures[0].plain, color=_PLAIN, linestyle="--", label=other)
    for figure in figures:
        axes.ecdf(figure.treated, label=own or figure.title.replace(" p50", ""))
    everything = sorted(sample for figure in figures for sample in figure.treated + figure.plain)
    axes.set_xlim(everything[0] * 0.95, everything[len(everything) * 99 // 100] * 1.1)
    axes.set_xlabel(f"{figures[0].unit} (cut off after the 99th percentile)")
    axes.set_ylabel("share of the requests that were quicker")
    axes.set_title(title, loc="left")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    return svg(picture)


def _stacks(row: str, figures: Sequence[Figure]) -> str:
    """A bar for each treatment, divided into its stages in the same order."""
    bars: dict[str, dict[str, float]] = {}
    for figure in figures:
        bars.setdefault(figure.title.partition(":")[0], {})[figure.key.rpartition(".")[2]] = (
            figure.value().at
        )
    longest = max(bar[SUM] for bar in bars.values())
    picture = Picture(figsize=(WIDTH, 7.2), layout="constrained")
    axes = picture.subplots()
    places = range(len(bars))
    ends = [0.0 for _ in bars]
    for name, stage in STAGES.items():
        widths = [bar.get(name, 0.0) for bar in bars.values()]
        look = {"color": stage.colour, "edgecolor": "white", "linewidth": 0.6, "label": stage.title}
        pieces = axes.barh(places, widths, left=ends, **look)
        numbers = [f"{width:.0f}" for width in widths]
        fitting = [text if float(text) > longest * _DIGIT * len(text) else "" for text in numbers]
        axes.bar_label(pieces, fitting, label_type="center", fontsize=7, color=_ink(stage.colour))
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for place, end in zip(places, ends, strict=True):
        axes.text(end + longest / 100, place, f"{end:.0f}", va="center", fontsize=9)
    axes.set_yticks(places, list(bars))
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, longest * _MARGIN)
    axes.set_xlabel("microseconds (mean of the middle half of the requests, less is better)")
    axes.set_title(_title(row), loc="left")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    picture.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return svg(picture)


def _ink(colour: str) -> str:
    """A text colour that is legible on ``colour``."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 130 else "black"


def _axes(lines: int) -> tuple[Picture, Any]:
    picture = Picture(figsize=(WIDTH, 1.4 + 0.36 * lines), layout="constrained")
    return picture, picture.subplots()


def svg(picture: Picture) -> str:
    """For a page."""
    text = io.StringIO()
    picture.savefig(text, format="svg", metadata={"Date": None})
    found = text.getvalue()
    return found[found.index("<svg") :]
