"""The parameters of a run; one error names all their faults."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

from columns import AggregateError, is_place
from figures import Figure, number_of
from parameters import is_true, shown

MOST_PERCENTILES = 100
MOST_EDGES = 1000
#: A header cannot have these at the end of its value.
DELIMITERS = {"tab": "\t", "space": " "}


@dataclass(frozen=True)
class Wanted:
    """The parameters of a run."""

    column: str
    is_csv: bool
    has_header: bool
    dialect: dict[str, Any]
    is_text: bool
    skips: tuple[str, ...]
    percentiles: dict[str, Figure]
    is_distinct: bool
    edges: list[Figure]
    output: str


def wanted_of(params: dict[str, str]) -> Wanted:
    """The parameters.

    :raises AggregateError: with every fault of them.
    """
    faults: list[str] = []
    is_csv, is_text = params["format"] == "csv", params["type"] == "text"
    has_header = is_true(params, "header")
    column = params["column"]
    if not column:
        faults.append("column: is empty")
    elif is_csv and not has_header and not is_place(column):
        faults.append(f"column: {shown(column)}: want a number from 1, as header is false")
    percentiles = dict(numbers("percentiles", params["percentiles"], MOST_PERCENTILES, faults))
    for name, percent in percentiles.items():
        if not 0 <= percent <= 100:
            faults.append(f"percentiles: {name}: want 0 to 100")
    edges = [edge for _, edge in numbers("histogram", params["histogram"], MOST_EDGES, faults)]
    if len(edges) == 1:
        faults.append("histogram: want at least two edges")
    if any(low >= high for low, high in zip(edges, edges[1:])):
        faults.append("histogram: each edge must be above the one before it")
    if is_text:
        faults += [
            f"type=text: has no {name}" for name in ("percentiles", "histogram") if params[name]
        ]
    output = params["output"]
    if output != "json":
        if params["percentiles"]:
            faults.append(f"output={output}: has no percentiles")
        if is_true(params, "distinct"):
            faults.append(f"output={output}: has no distinct")
        if not params["histogram"]:
            faults.append(f"output={output}: want a histogram")
    dialect = dialect_of(params, faults) if is_csv else {}
    if faults:
        raise AggregateError("; ".join(faults))
    skips = {"fail": (), "skip-missing": ("missing",), "skip": ("missing", "invalid")}
    return Wanted(
        column, is_csv, has_header, dialect, is_text, skips[params["wrong"]],
        percentiles, is_true(params, "distinct"), edges, output,
    )  # fmt: skip


def numbers(name: str, text: str, most: int, faults: list[str]) -> list[tuple[str, Figure]]:
    """Numbers with commas between them, each with its text."""
    found: list[tuple[str, Figure]] = []
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > most:
        faults.append(f"{name}: {len(words)} numbers: want at most {most}")
        return found
    for word in words:
        value = number_of(word)
        if value is None:
            faults.append(f"{name}: {shown(word)}: no number")
        else:
            found.append((word, value))
    return found


def dialect_of(params: dict[str, str], faults: list[str]) -> dict[str, Any]:
    """The arguments of ``csv.reader``."""
    delimiter = DELIMITERS.get(params["delimiter"], params["delimiter"])
    quote, escape = params["quote"], params["escape"]
    before = len(faults)
    if len(delimiter) != 1:
        faults.append("delimiter: want one character, tab or space")
    if quote != "none" and len(quote) != 1:
        faults.append("quote: want one character, or none")
    if len(escape) > 1:
        faults.append("escape: want one character, or nothing")
    dialect: dict[str, Any] = {"delimiter": delimiter, "escapechar": escape or None}
    if quote == "none":
        dialect |= {"quoting": csv.QUOTE_NONE, "quotechar": None}
    else:
        dialect |= {"quotechar": quote}
    if len(faults) == before:
        given = [delimiter, *(() if quote == "none" else quote), *escape]
        if len(set(given)) < len(given) or {"\r", "\n", "\0"} & set(given):
            faults.append("delimiter, quote and escape: want different characters of one line")
    return dialect
