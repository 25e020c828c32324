"""Keeps or counts the lines that match a pattern.

``matching`` searches blocks of whole lines, ``line_time`` limits the time of that, and ``report``
makes the output.
"""

from __future__ import annotations

from typing import Any

import line_blocks
import matching
import packed
import report
from line_time import Clock
from parameters import is_true
from refusal import Refusal


class Grep:
    """Searches in bytes, so that any encoding of the text is preserved."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        search = matching.search_of(
            params["pattern"],
            is_fixed=is_true(params, "fixed"),
            ignores_case=is_true(params, "ignore-case"),
        )
        sink = sink_of(params)
        target = out_files[0]
        target.set_metadata({"Content-Type": "text/plain; charset=utf-8"})
        is_inverted = is_true(params, "invert")
        source, at = packed.opened(in_files[0], params["compression"]), 0
        with Clock(int(params["line-seconds"])) as clock:
            for block in line_blocks.whole_lines(source):
                spans = clock.limited(search, block, at)
                sink.add_block(block, others(block, spans) if is_inverted else spans)
                target.write(sink.output())
                if sink.is_done:
                    break
                at += len(block)
        target.write(sink.end())


def others(block: bytes, spans: matching.Spans) -> matching.Spans:
    """The runs of lines between the spans."""
    place = 0
    for start, end in spans:
        if place < start:
            yield place, start
        place = end
    if place < len(block):
        yield place, len(block)


def sink_of(params: dict[str, str]) -> report.Sink:
    """The output that the parameters request.

    :raises ValueError: they exclude each other.
    """
    most, before, after = (int(params[name]) for name in ("max-count", "before", "after"))
    is_numbered, has_offsets = (is_true(params, name) for name in ("line-numbers", "byte-offsets"))
    places = {
        "before": before, "after": after, "line-numbers": is_numbered, "byte-offsets": has_offsets
    }  # fmt: skip
    given = [name for name, value in places.items() if value]
    if is_true(params, "count"):
        if given:
            raise Refusal(f"count has no lines: leave out {', '.join(given)}")
        return report.Number(most)
    if given:
        return report.Places(most, before, after, is_numbered=is_numbered, has_offsets=has_offsets)
    return report.Lines(most)
