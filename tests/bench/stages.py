"""The stages of a request, each defined by the two probes that enclose it.

A *course* is the path of a request from the client and back: probes in the order in which they are
passed, each with the stage that ends there.  Consecutive stages share their boundary, so the stages
of a request always add up to the client's wait.  Time between two probes that belongs to no stage
is :data:`REST`.  Concurrent work of several processes is counted once: a probe that is passed
before its predecessor in the course ends a stage of length zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: The client's stamps: before it sends, and when it has the complete response.
SENT: Final = "client.sent"
WHOLE: Final = "client.whole"
#: Those of a storlet, in this order.
STORLET: Final = ("storlet.began", "storlet.said", "storlet.got", "storlet.ended")


@dataclass(frozen=True)
class Stage:
    """``colour`` is that of the plot: cold where plain Swift does the same, warm where it is the
    storlet's."""

    title: str
    colour: str


REST: Final = "rest"
#: The part of a figure's key that means the sum of all stages.
SUM: Final = "whole"
#: Stages by key, in the order of the bars: approximately the order in which they begin.
STAGES: Final = {
    "request": Stage("client sends, proxy's server parses", "#c6dbef"),
    "middlewares": Stage("Swift's middlewares at the proxy", "#6baed6"),
    "authentication": Stage("authentication", "#08519c"),
    "rules": Stage("rules", "#00441b"),
    "rights": Stage("right to run the storlet", "#fff3a0"),
    "version": Stage("storlet's version", "#fed976"),
    "swift": Stage("Swift's proxy server", "#4292c6"),
    "hop": Stage("backend hop, there", "#bcbddc"),
    "object": Stage("object server", "#74c476"),
    "start": Stage("admission, connection to a worker", "#feb24c"),
    "message": Stage("invocation described and sent", "#fdd0a2"),
    "hand_over": Stage("hand-over to the worker", "#fd8d3c"),
    "metadata": Stage("storlet sets metadata", "#fcc5c0"),
    "input": Stage("storlet's buffer and first input", "#f768a1"),
    "storlet": Stage("storlet's output", "#7a0177"),
    "worker": Stage("worker's end", "#e31a1c"),
    "frames": Stage("frames", "#a63603"),
    "hop_back": Stage("backend hop, back", "#807dba"),
    "answer": Stage("answer", "#9ecae1"),
    REST: Stage("not accounted for", "#969696"),
}

Course = tuple[tuple[str, str], ...]

_IN: Final[Course] = (
    ("proxy.in", "request"),
    ("auth.in", "middlewares"),
    ("auth.out", "authentication"),
    ("filter.in", "middlewares"),
    ("rules.in", REST),
    ("rules.out", "rules"),
)
_ADMITTED: Final[Course] = (("rights.out", "rights"), ("version.out", "version"), ("get.in", REST))
_BACKEND: Final[Course] = (
    ("swift.in", "middlewares"),
    ("hop.out", "swift"),
    ("node.in", "hop"),
    ("disk.in", REST),
)
_PLAIN_NODE: Final[Course] = (("node.given", "object"),)
_BACK: Final[Course] = (("hop.back", "hop_back"), ("swift.out", "swift"))
_RUN: Final[Course] = (
    ("hand.in", "start"),
    ("hand.out", "message"),
    ("storlet.began", "hand_over"),
    ("storlet.said", "metadata"),
    ("storlet.got", "input"),
    ("storlet.ended", "storlet"),
)
#: By where the storlet runs.
COURSES: Final[Mapping[str, Course]] = {
    "plain": (
        *_IN,
        *_BACKEND,
        *_PLAIN_NODE,
        *_BACK,
        ("proxy.out", "middlewares"),
        (WHOLE, "answer"),
    ),
    "object": (
        *_IN,
        *_ADMITTED,
        *_BACKEND,
        ("disk.out", "object"),
        *_RUN,
        ("done", "worker"),
        ("node.given", "frames"),
        *_BACK,
        ("get.out", "middlewares"),
        ("frames.out", "frames"),
        ("run.out", "answer"),
        ("proxy.out", "middlewares"),
        (WHOLE, "answer"),
    ),
    # A response of known length is sent completely before the run is released and logged.
    "proxy": (
        *_IN,
        *_ADMITTED,
        *_BACKEND,
        *_PLAIN_NODE,
        *_BACK,
        ("get.out", "middlewares"),
        *_RUN,
        ("first.out", "worker"),
        ("done", "worker"),
        ("run.out", "answer"),
        ("proxy.out", "middlewares"),
        (WHOLE, "answer"),
    ),
}


class NotPassed(RuntimeError):
    """A request has no stamp of a probe that it should have passed."""


def lengths(course: Course, stamps: Mapping[str, int]) -> dict[str, float]:
    """Microseconds of each stage of ``course`` for a request with ``stamps`` in nanoseconds; they
    add up to the whole."""
    missing = [probe for probe, _ in ((SENT, ""), *course) if probe not in stamps]
    if missing:
        raise NotPassed(", ".join(missing))
    found: dict[str, float] = {}
    at = stamps[SENT]
    for probe, stage in course:
        then = max(at, stamps[probe])
        found[stage] = found.get(stage, 0.0) + (then - at) / 1000
        at = then
    return found


def usual(requests: Iterable[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """The middle half of ``requests`` by total time, in their original order.

    Medians of stages do not add up to the median of the whole.  Means do; but the mean over all
    requests is dominated by the few that were delayed by another program, a timer or an expired
    cache entry.
    """
    everyone = list(requests)
    order = sorted(range(len(everyone)), key=lambda at: sum(everyone[at].values()))
    quarter = len(order) // 4
    return [everyone[at] for at in sorted(order[quarter : len(order) - quarter])]


@dataclass(frozen=True)
class StorletTimes:
    """The stamps in the metadata of a storlet of ``tests/bench/storlets``: the start of this run,
    and the times of the previous run."""

    began: int
    before: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> StorletTimes:
        began, *before = (int(word) for word in text.split())
        return cls(began, tuple(before))


def ended(said: Iterable[StorletTimes]) -> dict[int, dict[str, int]]:
    """The stamps of each run that a later run of the same worker has reported, by start time."""
    return {
        one.before[0]: dict(zip(STORLET, one.before, strict=True)) for one in said if one.before
    }
