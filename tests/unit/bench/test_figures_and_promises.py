"""Ratios with their spread, and the table of promises that a program reads."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench import promises, recorded
from tests.bench.figures import Figure, quantile
from tests.bench.publish import published
from tests.bench.recorded import NotRecordable, RecordedRun
from tests.bench.rows import NAMES
from tests.bench.run import processor
from tests.support.cluster import CHECKOUT

TABLE = """
Something
---------

   * - promise
     - at most 3 apples
     - nowhere

Speed
-----

Measured long ago
by somebody.

Text.

.. list-table::

   * - promise
     - number
     - measured
     - shown by
   * - Quick
     - at most 1.20x
     - not measured
     - ``make bench ROWS=latency`` ``latency.*.object.p50``
   * - Neither way
     - between 0.99 and 1.01x
     - not measured
     - ``make bench ROWS=traffic`` ``traffic.get.small`` ``traffic.put.small``
   * - Early
     - at most 0.30 s
     - not measured
     - ``make bench ROWS=first`` ``first.tenant.*``

After
-----

   * - promise
     - at most 3 apples
     - nowhere
"""


def figure(
    key: str, treated: list[float], plain: list[float] | None = None, unit: str = "ms"
) -> Figure:
    return Figure(key, key, unit, treated=treated, plain=plain or [])


def test_samples_that_share_a_start_are_resampled_together() -> None:
    starts = [1.0, 1.1] * 5
    treated = [sample for start in starts for sample in [start] * 100]
    plain = [1.0] * len(treated)
    one_by_one = Figure("x", "x", "ms", treated, plain, quantile=None).value()
    by_start = Figure("x", "x", "ms", treated, plain, quantile=None, block=100).value()
    assert one_by_one.at == by_start.at == pytest.approx(1.05)
    assert one_by_one.high - one_by_one.low < 0.01
    assert 0.02 < by_start.high - by_start.low < 0.1


def test_one_block_has_no_spread() -> None:
    value = Figure("x", "x", "ms", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], block=3).value()
    assert value.low == value.at == value.high


def test_a_ratio_is_that_of_the_quantiles_and_lies_in_its_spread() -> None:
    plain = [1.0 + number / 100 for number in range(100)]
    value = figure("x.y", [2 * sample for sample in plain], plain).value()
    assert value.at == pytest.approx(2.0)
    assert value.low == pytest.approx(2.0)
    assert value.high == pytest.approx(2.0)


def test_noise_of_one_side_widens_the_spread() -> None:
    value = figure("x.y", [1.0, 2.0, 3.0, 4.0, 5.0] * 4, [1.0] * 20).value()
    assert value.low < value.at == 3.0 < value.high


def test_the_99th_percentile_is_not_the_largest_of_many() -> None:
    assert quantile([float(number) for number in range(1000)], 0.99) == 990.0


def test_one_sample_has_no_spread() -> None:
    assert figure("x.y", [4.0], [2.0]).value().text("x") == "2.00x"


def test_a_figure_survives_its_file() -> None:
    before = figure("x.y", [1.0, 2.0], [2.0, 2.0])
    assert Figure.from_json(before.to_json()) == before


def test_only_the_section_on_speed_is_read() -> None:
    found = promises.read(TABLE)
    assert [promise.number for promise in found] == [
        "at most 1.20x",
        "between 0.99 and 1.01x",
        "at most 0.30 s",
    ]
    assert [promise.row for promise in found] == ["latency", "traffic", "first"]
    assert (found[1].low, found[1].high, found[1].unit) == (0.99, 1.01, "x")


@pytest.mark.parametrize("bad", ["at most twelve x", "about 1.2x", "1.2x"])
def test_a_number_that_cannot_be_read_is_an_error(bad: str) -> None:
    with pytest.raises(promises.BadPromise, match="Quick"):
        promises.read(TABLE.replace("at most 1.20x", bad))


@pytest.mark.parametrize(
    ("treated", "word"),
    [
        ([1.1] * 9, promises.KEPT),
        ([1.3] * 9, promises.SHORT),
        ([1.0, 1.1, 1.25, 1.25, 1.3], promises.CLOSE),
    ],
)
def test_a_broken_promise_is_distinguished_from_noise(treated: list[float], word: str) -> None:
    seen = figure("latency.java.object.p50", treated, [1.0] * len(treated))
    assert promises.verdicts(promises.read(TABLE), [seen])[seen.key].word == word


def test_a_figure_in_another_unit_than_promised_is_an_error() -> None:
    with pytest.raises(promises.BadPromise, match=r"first\.tenant\.python"):
        promises.verdicts(promises.read(TABLE), [figure("first.tenant.python", [200.0])])


def test_a_promise_without_a_figure_is_named_when_its_row_was_run() -> None:
    found = promises.read(TABLE)
    measured = [figure("first.tenant.python", [0.2], unit="s"), figure("traffic.get.small", [])]
    assert [
        promise.text for promise in promises.unshown(found, measured, ["first", "traffic"])
    ] == ["Neither way"]


def test_every_row_is_in_the_reference() -> None:
    page = (CHECKOUT / "docs/benchmark/reference.rst").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"\n``{name}``" not in page] == []


def test_every_promise_of_the_specification_can_be_read_and_names_a_row() -> None:
    found = promises.read(promises.SPECIFICATION.read_text(encoding="utf-8"))
    section = promises.SECTION.search(promises.SPECIFICATION.read_text(encoding="utf-8"))
    assert section is not None
    # One row has the names of the columns. A promise of two lines counts, too.
    assert len(found) == section[1].count("\n   * - ") - 1
    assert {promise.row for promise in found} <= set(NAMES)
    assert [
        p.text for p in found for pattern in p.patterns if pattern.partition(".")[0] != p.row
    ] == []


def result_of(figures: list[Figure]) -> dict[str, Any]:
    return {
        "at": "2026-01-02T03:04:05+00:00",
        "plan": {"name": "full"},
        "facts": {"machine": "2 CPUs", "commit": "abc1234", "load": "0.10 when it began"},
        "figures": [each.to_json() for each in figures],
    }


def run_of(figures: list[Figure], **changes: Any) -> RecordedRun:
    found = recorded.run_of(result_of(figures), promises.read(TABLE))
    return replace(found, **changes)


ONES = [1.0, 1.0]


def test_a_run_is_written_beside_the_promises_and_changes_nothing_else() -> None:
    run = run_of([
        figure("latency.python.object.p50", [1.1, 1.1], ONES), figure("latency.java.object.p50", [1.5, 1.5], ONES),
        figure("traffic.get.small", ONES, ONES), figure("first.tenant.python", []), figure("stream.java.object", ONES),
    ])  # fmt: skip
    text = published(TABLE, [run])
    line = "Measured by ``make bench`` on one machine. Machine 1: 2 CPUs (2026-01-02 at abc1234)."
    expected = TABLE.replace("Measured long ago\nby somebody.", line)
    expected = expected.replace("not measured", "python 1.10x, java 1.50x (short)", 1).replace(
        "not measured", "1.000x", 1
    )
    assert text == expected
    assert published(text, [run]) == text
    assert promises.read(text) == promises.read(TABLE)


def test_the_newest_figures_of_all_machines_are_a_range_that_is_kept_only_by_all() -> None:
    def measured(at: str, machine: str, ratio: float) -> RecordedRun:
        run = [figure("latency.java.object.p50", [ratio] * 2, ONES)]
        return run_of(run, at=at, machine=machine)

    runs = [measured("1", "A", 3.0), measured("2", "A", 1.1), measured("3", "B", 1.05)]
    text = published(TABLE, runs)
    machines = "on 2 machines. Machine 1: A (1 at abc1234, 2 at abc1234). Machine 2: B (3 at"
    assert machines in " ".join(text.split())
    assert "     - 1.05x to 1.10x\n" in text
    text = published(TABLE, [*runs, measured("4", "C", 1.3)])
    assert "     - 1.05x to 1.30x (short)\n" in text


def test_a_recorded_run_survives_its_file(tmp_path: Path) -> None:
    runs = [run_of([figure("traffic.get.small", [1.0, 2.0], ONES)], at=at) for at in ("2", "1")]
    for run in runs:
        recorded.write(run, tmp_path / "runs")
    assert recorded.read(tmp_path / "runs") == runs[::-1]


def test_a_near_miss_is_not_written_as_kept() -> None:
    near = figure("traffic.put.small", [1.004, 1.0125, 1.0125, 1.0125, 1.02], [1.0] * 5)
    assert "     - 1.012x (close)\n" in published(TABLE, [run_of([near])])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"plan": {"name": "quick"}}, "the plan quick"),
        ({"facts": {"machine": "2 CPUs", "load": "0"}}, "commit is unknown"),
        ({"figures": []}, "no promise"),
    ],
)
def test_a_run_that_cannot_be_recorded_is_refused_by_its_reason(
    changes: dict[str, Any], reason: str
) -> None:
    result = {**result_of([figure("traffic.get.small", ONES, ONES)]), **changes}
    with pytest.raises(NotRecordable, match=reason):
        recorded.run_of(result, promises.read(TABLE))


def test_the_specification_has_what_the_recorded_runs_measured() -> None:
    text = promises.SPECIFICATION.read_text(encoding="utf-8")
    assert published(text, recorded.read()) == text


def test_the_readme_quotes_the_specification() -> None:
    quoted = re.findall(
        r"([0-9.]+x)[^`]*?\(``([a-z0-9.]+)``\)",
        (CHECKOUT / "README.rst").read_text(encoding="utf-8"),
    )
    rows = list(promises.ROW.finditer(promises.SPECIFICATION.read_text(encoding="utf-8")))
    assert len(quoted) == 3
    for number, key in quoted:
        told = [
            row["measured"]
            for row in rows
            if row["text"] != "promise" and promises.promise_of(row).covers(key)
        ]
        assert [number in cell for cell in told] == [True], (number, key, told)


def test_a_machine_has_the_model_and_the_cache_of_its_processor(tmp_path: Path) -> None:
    place = tmp_path / "cpuinfo"
    first = "processor\t: 0\nmodel\t\t: 207\nmodel name\t: X(R) CPU\ncache size\t: 266240 KB\n"
    place.write_text(f"{first}\n{first.replace('207', '9')}")
    assert processor(place) == "X(R) CPU, model 207, cache size 266240 KB"
    place.write_text("processor : 0\nBogoMIPS : 50\n")
    assert processor(place) == platform.machine()
