"""The last line of a run on a terminal: time, place, usage and id."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click
from rich.filesize import decimal

from storlet_client.cli.output import columns_of, in_line

_BETWEEN = " · "
#: The counts of bytes in ``X-Storlet-Usage``, each with its name here.
_SIZES = {"peak-memory": "memory", "in": "in", "out": "out"}


def show(seconds: float, facts: Sequence[str]) -> None:
    """Print the time and the facts that are not empty, if standard error is a terminal."""
    columns = columns_of(sys.stderr)
    if not columns:
        return
    lines: list[str] = []
    for fact in filter(None, (f"{seconds:.2f} s", *map(in_line, facts))):
        longer = f"{lines[-1]}{_BETWEEN}{fact}" if lines else fact
        # A line breaks between two facts.
        if lines and len(longer) <= columns:
            lines[-1] = longer
        else:
            lines.append(fact)
    click.secho("\n".join(lines), err=True, dim=True)


def facts_of(headers: Mapping[str, str]) -> list[str]:
    """Place, rule, usage and id of a run, each empty if it is not known."""
    place, rule = (headers.get(f"x-storlet-{name}", "") for name in ("ran-on", "rule"))
    return [
        f"ran on the {place} node" if place else "",
        f"rule {rule}" if rule else "",
        *usage_of(headers.get("x-storlet-usage", "")),
        headers.get("x-storlet-invocation", ""),
    ]


def usage_of(header: str) -> list[str]:
    """The parts of ``X-Storlet-Usage`` (``cpu=0.012;peak-memory=12582912;..``) with units."""
    found = []
    for part in filter(None, header.split(";")):
        name, _, value = part.partition("=")
        if name == "cpu":
            found.append(f"CPU {_duration(value)}")
        elif name in _SIZES and value.isdecimal():
            found.append(f"{_SIZES[name]} {decimal(int(value))}")
        else:
            found.append(f"{name} {value}".strip())
    return found


def _duration(value: str) -> str:
    try:
        seconds = float(value)
    except ValueError:
        return value
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
