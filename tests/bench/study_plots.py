"""The plots of IBM's study: small multiples, a column for each size of an object."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, NullLocator

from tests.bench.plots import WIDTH, svg
from tests.bench.study import (
    BARE,
    CLIENT,
    CONDITIONS,
    HAVE_BACKGROUND,
    HAVE_DELAY,
    IBM_FILTER,
    OBJECT,
    PROXY,
    TREATMENTS,
    Study,
    size_text,
)

#: Colour, marker, line.
_LOOKS: Final = {
    OBJECT.key: ("#0b6e99", "o", "-"),
    PROXY.key: ("#d9730d", "s", "-"),
    CLIENT.key: ("#444444", "^", "-"),
    BARE.key: ("#9a9a9a", "v", "--"),
}
_IBM_COLOUR: Final = "#c4320a"
_SIZE_COLOURS: Final = ("#0b6e99", "#d9730d", "#6b8e23")
#: Offsets that put the bars of one number of clients side by side.
_BESIDE: Final = (1.0, 1.05, 1.1)
_ROW_INCHES: Final = 2.3

#: Samples of one point: each a round's.
_Samples = Callable[[str, int, int, str], list[float]]


def all_of(study: Study) -> list[str]:
    """As SVG."""
    mpl.rcParams["svg.fonttype"] = "none"
    pictures = []
    for small in (True, False):
        sizes = study.sizes(small=small)
        name = "small objects" if small else "large objects"
        rate, unit = (
            (study.rates, "requests/s") if small else (_megabytes(study), "MB/s of objects")
        )
        pictures += [
            _conditions(study, sizes, f"Response time, {name}", "ms", study.responses, is_log=True),
            _conditions(study, sizes, f"Throughput, {name}", unit, rate, is_log=False),
            _background(study, sizes, f"What a neighbour waits, {name}"),
        ]
    return [*pictures, _filter(study)]


def _megabytes(study: Study) -> _Samples:
    def rates(condition: str, size: int, clients: int, treatment: str) -> list[float]:
        return [each * size / 1e6 for each in study.rates(condition, size, clients, treatment)]

    return rates


def _conditions(
    study: Study, sizes: Sequence[int], title: str, unit: str, samples: _Samples, *, is_log: bool
) -> str:
    """A row for each condition."""
    picture, grid = _grid(title, sizes, len(CONDITIONS), is_log=is_log)
    for row, (condition, said) in zip(grid, CONDITIONS.items(), strict=True):
        for axes, size in zip(row, sizes, strict=True):
            for treatment in TREATMENTS:
                counts = study.clients(size)
                _line(
                    axes,
                    counts,
                    [samples(condition, size, each, treatment.key) for each in counts],
                    treatment.key,
                )
            _clients_axis(axes, study.clients(size), has_none=False)
            if is_log:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(FuncFormatter(_plain))
            else:
                axes.set_ylim(bottom=0)
        row[0].set_ylabel(f"{said}\n{unit}")
    return _finish(picture, grid, sizes)


def _background(study: Study, sizes: Sequence[int], title: str) -> str:
    """A row for each method and condition; no clients: only the neighbour."""
    rows = [(method, condition) for condition in HAVE_BACKGROUND for method in ("GET", "PUT")]
    picture, grid = _grid(title, sizes, len(rows), is_log=True)
    for row, (method, condition) in zip(grid, rows, strict=True):
        for axes, size in zip(row, sizes, strict=True):
            counts = [0, *study.clients(size)]
            for treatment in TREATMENTS:
                waits = [
                    study.neighbours(method, condition, size, each, treatment.key)
                    for each in counts
                ]
                _line(axes, counts, [[statistics.median(each)] for each in waits], treatment.key)
            _clients_axis(axes, counts, has_none=True)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        away = ", clients\n100 ms away" if condition in HAVE_DELAY else ""
        row[0].set_ylabel(f"{method} of 10 KB{away}\nms")
    return _finish(picture, grid, sizes)


def _filter(study: Study) -> str:
    """The client with the filter against the client without it, beside what IBM reports."""
    picture = Picture(figsize=(WIDTH, 3.2), layout="constrained")
    picture.suptitle(
        "What the filter costs a client: response time with it / without it", x=0.01, ha="left"
    )
    for axes, small in zip(picture.subplots(1, 2, sharey=True), (True, False), strict=True):
        for size, colour, beside in zip(
            study.sizes(small=small), _SIZE_COLOURS, _BESIDE, strict=False
        ):
            counts = study.clients(size)
            ratios = [study.filter_ratios(size, each) for each in counts]
            _bars(
                axes,
                [each * beside for each in counts],
                ratios,
                color=colour,
                marker="o",
                label=size_text(size),
            )
        axes.axhline(1.0, color="#9a9a9a", linewidth=1)
        axes.axhline(
            IBM_FILTER, color=_IBM_COLOUR, linestyle=":", label=f"IBM's report: {IBM_FILTER}x"
        )
        _clients_axis(axes, study.clients(study.sizes(small=small)[0]), has_none=False)
        axes.set_xlabel("clients")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    return svg(picture)


def _grid(title: str, sizes: Sequence[int], rows: int, *, is_log: bool) -> tuple[Picture, Any]:
    picture = Picture(figsize=(WIDTH, 1.1 + _ROW_INCHES * rows), layout="constrained")
    picture.suptitle(title, x=0.01, ha="left")
    # A logarithmic scale is shared by all, which makes conditions comparable; a linear one is not,
    # because the largest values would hide the others.
    return picture, picture.subplots(
        rows, len(sizes), squeeze=False, sharey=True if is_log else "col", sharex="col"
    )


def _line(axes: Any, counts: Sequence[int], samples: Sequence[list[float]], treatment: str) -> None:
    colour, marker, line = _LOOKS[treatment]
    title = next(one.title for one in TREATMENTS if one.key == treatment)
    _bars(axes, counts, samples, color=colour, marker=marker, linestyle=line, label=title)


def _bars(axes: Any, counts: Sequence[float], samples: Sequence[list[float]], **looks: Any) -> None:
    """Medians with the least and the most."""
    medians = [statistics.median(each) for each in samples]
    below = [middle - min(each) for middle, each in zip(medians, samples, strict=True)]
    above = [max(each) - middle for middle, each in zip(medians, samples, strict=True)]
    axes.errorbar(
        counts, medians, yerr=[below, above], capsize=2, markersize=4, linewidth=1.3, **looks
    )


def _clients_axis(axes: Any, counts: Sequence[int], *, has_none: bool) -> None:
    if has_none:
        axes.set_xscale("symlog", linthresh=1)
    else:
        axes.set_xscale("log")
    axes.set_xticks(counts, [str(each) for each in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)


def _plain(value: float, _: object) -> str:
    return f"{value:g}"


def _finish(picture: Picture, grid: Any, sizes: Sequence[int]) -> str:
    for axes, size in zip(grid[0], sizes, strict=True):
        axes.set_title(size_text(size), fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("clients")
    handles, labels = grid[0][0].get_legend_handles_labels()
    picture.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False
    )
    return svg(picture)
