"""A histogram as a picture in SVG: a bar for each bin, all of the same width.

The picture has no script, no link and no font of its own.  Texts of the object are escaped.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

from figures import json_text

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60
#: Edges with a text; of more bins each second, third, ... edge has one.
MOST_LABELS = 9
#: Characters of the column's name, and of a number.
MOST_NAME, MOST_NUMBER = 60, 12


def svg_of(facts: dict[str, Any]) -> str:
    """The picture of a report that has a histogram."""
    bins = facts["histogram"]["bins"]
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    base, step = TOP + high, wide / len(bins)
    most = max(each["count"] for each in bins)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT, 24, shown(facts["column"], MOST_NAME), "start", size=16),
    ]
    for place, each in enumerate(bins):
        tall = high * each["count"] / most if most else 0
        words = f"{json_text(each['from'])} to {json_text(each['to'])}: {each['count']}"
        parts.append(
            f'<rect x="{LEFT + place * step:.2f}" y="{base - tall:.2f}" width="{step:.2f}"'
            f' height="{tall:.2f}" fill="#4878a8" stroke="#fff" stroke-width="0.5">'
            f"<title>{words}</title></rect>"
        )
    parts.append(f'<path d="M{LEFT} {TOP}V{base}H{WIDTH - RIGHT}" fill="none" stroke="#000"/>')
    parts += [text(LEFT - 6, TOP + 4, str(most), "end"), text(LEFT - 6, base + 4, "0", "end")]
    edges = [each["from"] for each in bins] + [bins[-1]["to"]]
    every = -(-len(edges) // MOST_LABELS)
    parts += [
        text(LEFT + place * step, base + 18, shown(json_text(edges[place]), MOST_NUMBER), "middle")
        for place in range(0, len(edges), every)
    ]
    parts.append(text(LEFT, HEIGHT - 12, caption(facts), "start"))
    return "\n".join([*parts, "</svg>"])


def caption(facts: dict[str, Any]) -> str:
    """How many records there are, and how many of them are in no bar."""
    histogram = facts["histogram"]
    counts = {"values": facts["count"], "below": histogram["below"], "above": histogram["above"]}
    counts |= facts.get("skipped", {})
    return ", ".join(f"{name}: {count}" for name, count in counts.items())


def text(x: float, y: float, words: str, anchor: str, size: int = 12) -> str:
    """A line of text."""
    return (
        f'<text x="{x:.2f}" y="{y}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(words)}</text>"
    )


def shown(words: str, most: int) -> str:
    """The words without characters that XML cannot have, and not longer than ``most``."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in words)
    return clean if len(clean) <= most else clean[: most - 1] + "\u2026"
