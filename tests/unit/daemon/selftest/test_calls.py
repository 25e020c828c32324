"""System calls that must be refused: the table, and how results are judged."""

from __future__ import annotations

import errno
import os
from collections import Counter
from types import SimpleNamespace

import pytest

from storlet_daemon.selftest import calls
from storlet_daemon.selftest.calls import CALLS, MACHINES
from storlet_daemon.selftest.model import Facts


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_calls_have_one_number(machine: str) -> None:
    numbers = [row.numbers[MACHINES.index(machine)] for row in CALLS]
    assert [number for number, count in Counter(numbers).items() if count > 1 and number] == []


def unknown_machine() -> SimpleNamespace:
    return SimpleNamespace(machine="riscv64")


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "EACCES"])
def test_a_refusal_is_no_fault(error: str) -> None:
    assert calls.refused(-getattr(errno, error)) == ""


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (0, "the kernel did it"),
        (5, "the kernel did it"),
        (-errno.EINVAL, "not refused: EINVAL"),
        (-errno.EBADF, "not refused: EBADF"),
        (-4000, "not refused: -4000"),
    ],
)
def test_every_other_result_shows_that_the_kernel_executed_the_call(
    result: int, fault: str
) -> None:
    assert calls.refused(result) == fault


@pytest.mark.skipif(os.uname().machine not in MACHINES, reason="other numbers of system calls")
def test_a_call_by_number_returns_its_result_or_minus_its_error() -> None:
    close = calls.Call("close", (3, 57), (-1,), "nothing")
    getpid = calls.Call("getpid", (39, 172), (), "nothing")
    assert calls.call(getpid.number()) == os.getpid()
    assert calls.call(close.number(), -1) == -errno.EBADF
    assert close.attempt(Facts(0, 1)) == "not refused: EBADF"


def test_an_unknown_machine_fails_one_test_and_skips_the_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "uname", unknown_machine)
    made: list[int] = []
    monkeypatch.setattr(calls, "call", lambda number, *_: made.append(number) or 0)
    outcomes = {row.name: row.attempt(Facts(0, 1)) for row in calls.TESTS}
    # Urgent data needs no number of a call, and this process is in no sandbox.
    assert {name for name, fault in outcomes.items() if fault} == {"machine", "syscall-urgent-data"}
    assert "riscv64" in outcomes["machine"]
    assert made == []
