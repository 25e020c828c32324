"""One run of the benchmark: the rows, the table, the files, and missed promises."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.bench import promises, publish, recorded, report, show
from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer
from tests.bench.plan import FULL, QUICK
from tests.bench.rows import APART, CLUSTER_SECONDS, NAMES, Row, chosen, estimate
from tests.bench.site import Site, own_site
from tests.support.cluster import CHECKOUT, attach

__all__ = ["APART", "NAMES", "Choice", "record", "report_again", "run"]

_GIB: Final = 1 << 30
_PICTURE: Final = CHECKOUT / "docs/speed.svg"


@dataclass(frozen=True)
class Choice:
    """The options of the command line."""

    rows: tuple[str, ...]
    quick: bool
    results: Path
    home: Path | None


def run(choice: Choice) -> int:
    """Exit status 0 if all rows ran and no promise was missed."""
    promised = promises.read(promises.SPECIFICATION.read_text(encoding="utf-8"))
    rows = chosen(choice.rows, quick=choice.quick)
    progress = show.Progress(estimate(rows, quick=choice.quick))
    progress.row("a cluster that is up" if choice.home else "a cluster of its own", CLUSTER_SECONDS)
    faults: list[str] = []
    figures: list[Figure] = []
    with nullcontext(Site(attach(choice.home))) if choice.home else own_site() as site:
        bench = Bench(site, QUICK if choice.quick else FULL, progress)
        bench.facts |= _machine()
        for row in rows:
            for figure in _measured(bench, row, faults):
                figures.append(figure)
                verdict = promises.verdicts(promised, [figure]).get(figure.key)
                progress.say(show.line(figure, verdict))
    short = _missed_promises(promised, figures, rows)
    bench.facts["seconds"] = f"{progress.seconds:.0f}"
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "plan": asdict(bench.plan),
        "facts": bench.facts,
        "faults": faults,
        "short": short,
        "figures": [figure.to_json() for figure in figures],
        "raw": bench.raw,
    }
    _write(choice.results, result, promised)
    for text in [*faults, *short]:
        print(text)
    print(
        f"{len(figures)} figures in {progress.seconds:.0f} s; {len(short)} fall short of SPECIFICATION.rst"
    )
    return 1 if faults or short else 0


def report_again(path: Path) -> int:
    """The HTML report of an earlier run's JSON."""
    result = json.loads(path.read_text(encoding="utf-8"))
    promised = promises.read(promises.SPECIFICATION.read_text(encoding="utf-8"))
    html = path.with_suffix(".html")
    html.write_text(report.render(result, promised), encoding="utf-8")
    print(html)
    return 0


def record(path: Path) -> int:
    """Keep the promised figures of a run, and write those of all recorded runs into the
    specification's table; draw the picture of the documents if the run has all promised rows."""
    result = json.loads(path.read_text(encoding="utf-8"))
    text = promises.SPECIFICATION.read_text(encoding="utf-8")
    promised = promises.read(text)
    try:
        kept = recorded.run_of(result, promised)
    except recorded.NotRecordable as fault:
        print(f"{path} cannot be recorded: {fault}")
        return 1
    print(recorded.write(kept))
    published = publish.published(text, recorded.read())
    promises.SPECIFICATION.write_text(published, encoding="utf-8")
    print(promises.SPECIFICATION)
    if {f"row {promise.row}" for promise in promised} <= result["facts"].keys():
        from tests.bench import plots  # noqa: PLC0415 - needs matplotlib

        figures = recorded.figures_of(result)
        _PICTURE.write_text(plots.promised_ratios(figures, promised), encoding="utf-8")
        print(_PICTURE)
    return 0


def _measured(bench: Bench, row: Row, faults: list[str]) -> Iterator[Figure]:
    """The figures of a row; a failure is reported, and the other rows continue."""
    bench.progress.row(f"{row.name}: {row.title}", row.about(quick=bench.plan is QUICK))
    cpu, began = _client_seconds(), time.monotonic()
    bench.site.reconnect()
    try:
        yield from row.measure(bench)
    except (BadAnswer, OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
        faults.append(f"row {row.name} failed: {type(error).__name__}: {error}"[:2000])
        bench.progress.say(faults[-1])
    seconds = time.monotonic() - began
    share = (_client_seconds() - cpu) / seconds
    bench.facts[f"row {row.name}"] = (
        f"{seconds:.0f} s, in which the client used {share:.0%} of one CPU"
    )
    bench.progress.say(f"  ({bench.facts[f'row {row.name}']})")


def _client_seconds() -> float:
    """CPU time of this process and of its ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _missed_promises(
    promised: Sequence[promises.Promise], figures: Sequence[Figure], rows: Sequence[Row]
) -> list[str]:
    """The missed promises, and promises without a measurement."""
    found = promises.verdicts(promised, figures)
    texts = [
        f"SHORT {figure.key}: {figure.value().text(figure.shown_unit)}, promised {found[figure.key].promise}"
        for figure in figures
        if figure.key in found and found[figure.key].word == promises.SHORT
    ]
    missing = promises.unshown(promised, figures, [row.name for row in rows])
    return texts + [
        f"NOT MEASURED {' '.join(promise.patterns)}: {promise.text}" for promise in missing
    ]


def _write(results: Path, result: dict[str, Any], promised: Sequence[promises.Promise]) -> None:
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"{result['at'].replace(':', '').partition('+')[0]}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    html = path.with_suffix(".html")
    html.write_text(report.render(result, promised), encoding="utf-8")
    print(f"{path}\n{html}")


def processor(path: Path = Path("/proc/cpuinfo")) -> str:
    """Kind of the first processor; model and cache differ where virtual machines have one name."""
    lines = itertools.takewhile(str.strip, path.read_text(encoding="utf-8").splitlines())
    fields = (line.partition(":") for line in lines)
    known = {name.strip(): value.strip() for name, _, value in fields}
    details = [f"{name} {known[name]}" for name in ("model", "cache size") if name in known]
    return ", ".join([known.get("model name", platform.machine()), *details])


def _machine() -> dict[str, str]:
    """The machine's hardware and software, and the commit."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts = {
        "machine": (
            f"{os.cpu_count()} CPUs ({processor()}), {memory / _GIB:.0f} GiB,"
            f" Linux {platform.release()}, Python {platform.python_version()}"
        ),
        "load": f"{os.getloadavg()[0]:.2f} when it began",
    }
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
        facts["commit"] = done.stdout.strip()
    return facts
