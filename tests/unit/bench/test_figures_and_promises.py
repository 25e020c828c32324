"""Ratios with their spread, and the table of promises that a program reads."""

from __future__ import annotations

import pytest

from tests.bench import promises
from tests.bench.figures import Figure, quantile
from tests.bench.rows import NAMES

TABLE = """
Something
---------

   * - promise
     - at most 3 apples
     - nowhere

Speed
-----

Text.

.. list-table::

   * - promise
     - number
     - shown by
   * - Quick
     - at most 1.20x
     - ``make bench ROWS=latency`` ``latency.*.object.p50``
   * - Neither way
     - between 0.99 and 1.01x
     - ``make bench ROWS=traffic`` ``traffic.get.small`` ``traffic.put.small``
   * - Early
     - at most 0.30 s
     - ``make bench ROWS=first`` ``first.tenant.*``

After
-----

   * - promise
     - at most 3 apples
     - nowhere
"""


def figure(key: str, treated: list[float], plain: list[float] | None = None, unit: str = "ms") -> Figure:
    return Figure(key, key, unit, treated=treated, plain=plain or [])


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
    assert [promise.number for promise in found] == ["at most 1.20x", "between 0.99 and 1.01x", "at most 0.30 s"]
    assert [promise.row for promise in found] == ["latency", "traffic", "first"]
    assert (found[1].low, found[1].high, found[1].unit) == (0.99, 1.01, "x")


@pytest.mark.parametrize("bad", ["at most twelve x", "about 1.2x", "1.2x"])
def test_a_number_that_cannot_be_read_is_an_error(bad: str) -> None:
    with pytest.raises(promises.BadPromise, match="Quick"):
        promises.read(TABLE.replace("at most 1.20x", bad))


@pytest.mark.parametrize(
    ("treated", "word"),
    [([1.1] * 9, promises.KEPT), ([1.3] * 9, promises.SHORT), ([1.0, 1.1, 1.25, 1.25, 1.3], promises.CLOSE)],
)
def test_what_falls_short_is_told_from_what_may_be_noise(treated: list[float], word: str) -> None:
    seen = figure("latency.java.object.p50", treated, [1.0] * len(treated))
    assert promises.verdicts(promises.read(TABLE), [seen])[seen.key].word == word


def test_a_figure_in_another_unit_than_promised_is_an_error() -> None:
    with pytest.raises(promises.BadPromise, match=r"first\.tenant\.python"):
        promises.verdicts(promises.read(TABLE), [figure("first.tenant.python", [200.0])])


def test_a_promise_without_a_figure_is_named_when_its_row_was_run() -> None:
    found = promises.read(TABLE)
    measured = [figure("first.tenant.python", [0.2], unit="s"), figure("traffic.get.small", [])]
    assert [promise.text for promise in promises.unshown(found, measured, ["first", "traffic"])] == ["Neither way"]


def test_every_promise_of_the_specification_can_be_read_and_names_a_row() -> None:
    found = promises.read(promises.SPECIFICATION.read_text(encoding="utf-8"))
    assert len(found) > 20
    assert {promise.row for promise in found} <= set(NAMES)
    assert [p.text for p in found for pattern in p.patterns if pattern.partition(".")[0] != p.row] == []
