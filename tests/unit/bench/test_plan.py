"""The estimated duration of a run, and the progress output."""

from __future__ import annotations

import pytest

from tests.bench import show
from tests.bench.plan import FULL, QUICK
from tests.bench.rows import CLUSTER_SECONDS, ROWS, chosen, estimate


@pytest.mark.parametrize(("quick", "minutes"), [(False, 20), (True, 3)])
def test_a_run_takes_no_longer_than_the_documented_time(quick: bool, minutes: int) -> None:
    assert estimate(chosen((), quick=quick), quick=quick) <= minutes * 60


@pytest.mark.parametrize(("quick", "minutes"), [(False, 15), (True, 2)])
def test_a_row_that_must_be_named_takes_no_longer_than_the_documented_time(
    quick: bool, minutes: int
) -> None:
    named = chosen(["study"], quick=quick)
    assert [row.only_named for row in named] == [True]
    assert estimate(named, quick=quick) <= minutes * 60


@pytest.mark.parametrize("quick", [False, True])
def test_a_row_that_must_be_named_is_part_of_no_other_run(quick: bool) -> None:
    assert [row.name for row in chosen((), quick=quick) if row.only_named] == []


def test_every_other_row_is_part_of_the_full_run_and_each_has_an_estimate() -> None:
    assert [row.name for row in chosen((), quick=False)] == [
        row.name for row in ROWS if not row.only_named
    ]
    assert [row.name for row in ROWS if row.seconds <= 0 or row.quick_seconds > row.seconds] == []


def test_a_row_that_is_named_runs_in_the_quick_plan_too() -> None:
    assert [row.name for row in chosen(["nodes", "latency"], quick=True)] == ["latency", "nodes"]


def test_the_full_plan_has_the_required_number_of_samples() -> None:
    assert FULL.small >= 300
    assert FULL.large >= 10
    assert QUICK.small < FULL.small


def test_each_row_shows_its_remaining_time_and_that_of_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = chosen(["driver", "load", "traffic"], quick=False)
    progress = show.Progress(estimate(rows, quick=False))
    progress.row("a cluster", CLUSTER_SECONDS)
    for row in rows:
        progress.row(row.name, row.seconds)
    lines = capsys.readouterr().out.splitlines()
    total = sum(row.seconds for row in rows)
    assert (
        f"(about {CLUSTER_SECONDS} s; to the end about {(total + CLUSTER_SECONDS) / 60:.0f} min)"
        in lines[0]
    )
    assert lines[-1].endswith(
        f"# traffic (about {rows[-1].seconds} s; to the end about {rows[-1].seconds / 60:.0f} min)"
    )
