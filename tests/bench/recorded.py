"""The recorded runs of the benchmark: what ``SPECIFICATION.rst`` publishes, by machine.

Each file of :data:`FOLDER` has the promised figures of one run, without their samples::

   {"at": "2026-11-27T02:50:47", "commit": "1e68b3c6", "machine": "2 CPUs, ...", "load": "0.10 ...",
    "figures": {"latency.java.proxy.p50": {"at": 1.2, "low": 1.19, "high": 1.22, "unit": "x"}}}

A machine is known by what the benchmark says of it.  Of each figure the newest value of each
machine counts, so a run may consist of some rows only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.figures import Figure, Value
from tests.bench.promises import Promise
from tests.support.cluster import CHECKOUT

FOLDER: Final = CHECKOUT / "docs/benchmark/runs"


class NotRecordable(ValueError):
    """Figures that must not be published, such as those of a quick run."""


@dataclass(frozen=True)
class Measured:
    """A value of a figure and its unit, ``x`` for a ratio."""

    value: Value
    unit: str


@dataclass(frozen=True)
class RecordedRun:
    """``at`` is the time in ISO 8601; ``figures`` are by their keys."""

    at: str
    commit: str
    machine: str
    load: str
    figures: Mapping[str, Measured]

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.at[:19].replace(':', '')}-{self.commit}.json"

    def to_json(self) -> dict[str, Any]:
        figures = {
            key: {**asdict(found.value), "unit": found.unit} for key, found in self.figures.items()
        }
        return {**asdict(self), "figures": figures}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RecordedRun:
        figures = {
            key: Measured(Value(each["at"], each["low"], each["high"]), each["unit"])
            for key, each in found["figures"].items()
        }
        return cls(found["at"], found["commit"], found["machine"], found["load"], figures)


def figures_of(result: Mapping[str, Any]) -> list[Figure]:
    """The measured figures of a result (the content of the JSON file that a run writes)."""
    return [figure for figure in map(Figure.from_json, result["figures"]) if figure.treated]


def run_of(result: Mapping[str, Any], promised: Sequence[Promise]) -> RecordedRun:
    """The promised figures of a result.

    :raises NotRecordable: a quick run, or one without a commit or a promised figure.
    """
    facts, plan = result["facts"], result["plan"]["name"]
    figures = {
        figure.key: Measured(figure.value(), figure.shown_unit)
        for figure in figures_of(result)
        if any(promise.covers(figure.key) for promise in promised)
    }
    if plan != "full":
        raise NotRecordable(f"it has the plan {plan}: record a run of `make bench`")
    if "commit" not in facts:
        raise NotRecordable("its commit is unknown: run it in a checkout with git")
    if not figures:
        raise NotRecordable("no promise of SPECIFICATION.rst covers a figure of it")
    machine, load = facts["machine"], facts["load"]
    return RecordedRun(result["at"], facts["commit"], machine, load, figures)


def read(folder: Path = FOLDER) -> list[RecordedRun]:
    """All recorded runs, the oldest first."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    return sorted(map(RecordedRun.from_json, found), key=lambda run: run.at)


def write(run: RecordedRun, folder: Path = FOLDER) -> Path:
    """The file of a run."""
    file = folder / run.name
    folder.mkdir(exist_ok=True)
    file.write_text(json.dumps(run.to_json(), indent=1) + "\n", encoding="utf-8")
    return file


def by_figure(runs: Iterable[RecordedRun]) -> dict[str, list[Measured]]:
    """The newest value of each figure on each machine; ``runs`` are sorted by time."""
    newest: dict[str, dict[str, Measured]] = {}
    for run in runs:
        for key, measured in run.figures.items():
            newest.setdefault(key, {})[run.machine] = measured
    return {key: list(machines.values()) for key, machines in newest.items()}
