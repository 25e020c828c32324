"""Storlets that run inside each other: cycles and depth."""

from __future__ import annotations

from typing import Any

import pytest

from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import StorletError
from storlet_middleware.services.nesting import (
    MAX_DEPTH,
    RUN_OPERATIONS,
    Nesting,
    is_inner,
    nesting_of,
    parent_of,
    rule_of,
)
from storlet_middleware.wsgi.disconnect import CANCELLATION


def test_a_request_of_a_client_is_in_no_run() -> None:
    assert nesting_of({}) == Nesting()
    assert (is_inner({}), parent_of({})) == (False, "")
    assert Nesting().inside(["a.py", "a.py"]).chain == ("a.py", "a.py")


def test_the_chain_travels_in_the_environment() -> None:
    environ: dict[str, object] = {}
    inside = Nesting().inside(["a.py"], "tx-1")
    inside.put(environ)
    assert nesting_of(environ) == inside
    assert (is_inner(environ), parent_of(environ)) == (True, "tx-1")


def test_a_run_inside_a_rules_run_is_of_this_rule() -> None:
    environ: dict[str, object] = {}
    assert rule_of(environ) == ""
    outer = Nesting().inside(["a.py"], "tx-1", "hide")
    outer.inside(["b.py"], "tx-2").inside(["c.py"], "tx-3").put(environ)
    assert rule_of(environ) == "hide"
    outer.inside(["b.py"], "tx-2", "own").put(environ)
    assert rule_of(environ) == "own"


def test_a_cycle_is_refused_by_name() -> None:
    inside = Nesting().inside(["a.py"]).inside(["b.py", "c.py"])
    with pytest.raises(StorletError, match=r"without end: b\.py -> c\.py -> b\.py") as caught:
        inside.inside(["b.py"])
    assert (caught.value.code, caught.value.status) == ("storlet.services", 422)


def test_requests_of_a_clients_flow_share_the_pace_and_are_in_no_run() -> None:
    first, second = dict[str, object](), dict[str, object]()
    outer = Nesting()
    outer.put(first)
    outer.put(second)
    assert nesting_of(first).inside(["a.py"]).pace is nesting_of(second).pace
    assert nesting_of(first) == Nesting()
    assert CANCELLATION not in first


def test_a_flow_is_the_parent_of_its_runs_and_no_run_itself() -> None:
    outer = Nesting()
    flow = outer.of_flow("tx-1")
    assert (flow.parent, flow.depth, flow.chain) == ("tx-1", 0, ())
    assert flow.pace is outer.pace
    assert flow.inside(["up.py"], "tx-2").parent == "tx-2"


def test_the_end_of_a_run_cancels_what_is_inside() -> None:
    outer = Nesting().inside(["a.py"], "run-1")
    inner, other = outer.inside(["b.py"], "run-2"), outer.inside(["c.py"], "run-3")
    environ: dict[str, Any] = {}
    inner.put(environ)
    inner.cancellation.cancel()
    assert environ[CANCELLATION].is_cancelled
    assert not outer.cancellation.is_cancelled
    assert not other.cancellation.is_cancelled
    outer.cancellation.cancel()
    assert other.cancellation.is_cancelled
    assert (inner.parent, inner.inside(["d.py"], "run-4").parent) == ("run-2", "run-4")


def test_runs_inside_each_other_have_one_pace() -> None:
    outer = Nesting().inside(["a.py"])
    inner = outer.inside(["b.py"])
    began = monotonic()
    for _ in range(75):
        outer.pace.keep(100)
        inner.pace.keep(100)
    # A burst of one second's operations, and the rest at the rate; each alone would not wait.
    assert monotonic() - began > 0.4


def test_an_inner_run_counts_as_several_operations() -> None:
    outer = Nesting().inside(["a.py"])
    runs = 60
    began = monotonic()
    for number in range(runs):
        outer.pace.keep(100)
        outer.inside([f"{number}.py"])
    # Without the charge these operations would not wait at all.
    assert monotonic() - began > (RUN_OPERATIONS * (runs - 1) - 100) / 100 - 0.1


def test_the_depth_is_bounded() -> None:
    nesting = Nesting()
    for number in range(MAX_DEPTH):
        nesting = nesting.inside([f"{number}.py"])
    with pytest.raises(StorletError, match=f"inside each other {MAX_DEPTH} deep"):
        nesting.inside(["last.py"])
