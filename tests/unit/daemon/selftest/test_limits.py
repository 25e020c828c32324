"""Limits that are reached on purpose: with the limit of this process, and without one."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from storlet_daemon.selftest import limits
from tests.unit.daemon.children import in_child
from tests.unit.daemon.selftest.rows import attempt, attempt_in_child


def below(kind: int, soft: int, hard: int, function: Callable[[], str]) -> str:
    """The result of ``function`` in a child with this limit."""

    def run() -> str:
        resource.setrlimit(kind, (soft, hard))
        return function()

    return in_child(run)


@pytest.mark.parametrize(
    "name", ["limit-processes", "limit-memory", "limit-open-files", "limit-scratch"]
)
def test_a_limit_that_is_not_set_fails(name: str) -> None:
    assert attempt(name) == "there is no limit"


def test_children_beyond_the_limit_are_counted_and_end() -> None:
    result = attempt_in_child("limit-processes", processes=2)
    assert result == "19 children were started, the limit is 2"


def test_memory_beyond_the_limit_is_reported() -> None:
    result = attempt_in_child("limit-memory", memory_bytes=1 << 20)
    assert result == f"a process held {33 << 20} bytes, the limit is {1 << 20}"


def test_memory_that_the_kernel_refuses_holds() -> None:
    def hold() -> str:
        return attempt_in_child("limit-memory", memory_bytes=1 << 20)

    size = 16 << 20
    assert below(resource.RLIMIT_DATA, size, size, hold) == ""


@pytest.mark.parametrize(
    ("most", "result"), [(64, ""), (200, "101 files are open, the limit is 100")]
)
def test_open_files_are_limited_or_counted(most: int, result: str) -> None:
    def run() -> str:
        return attempt_in_child("limit-open-files", open_files=100)

    assert below(resource.RLIMIT_NOFILE, most, most, run) == result


@pytest.mark.parametrize(("most", "is_limited"), [(0, True), (10, False)])
def test_core_files_must_be_empty(most: int, is_limited: bool) -> None:
    result = below(resource.RLIMIT_CORE, 0, most, lambda: attempt("limit-core"))
    assert (result == "") is is_limited


def test_scratch_beyond_the_limit_is_reported_and_removed() -> None:
    result = attempt_in_child("limit-scratch", scratch_bytes=1 << 20)
    assert result == f"/tmp took {(1 << 20) + (1 << 18)} bytes, the limit is {1 << 20}"


def test_a_low_score_for_the_out_of_memory_killer_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> str:
        monkeypatch.setattr(limits, "_OOM_SCORE", 1001)
        return attempt("limit-oom-score")

    assert in_child(run).endswith("the kernel may take Swift first")
