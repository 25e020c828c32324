"""Limits of opening inputs."""

from __future__ import annotations

import pytest

from storlet_middleware.concurrency import Signal, end, sleep, spawn
from storlet_middleware.proxy import openings
from storlet_middleware.proxy.openings import Openings


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses so far, in seconds."""
    seen: list[float] = []

    def pause(seconds: float) -> None:
        seen.append(seconds)
        sleep(0)

    monkeypatch.setattr(openings, "sleep", pause)
    return seen


def open_at_once(turns: Openings, account: str, count: int, seconds: float = 0.0) -> int:
    """Open ``count`` inputs; return how many were opened at the same time."""
    now, most = 0, 0

    def open_one() -> None:
        nonlocal now, most
        with turns.held(account):
            now += 1
            most = max(most, now)
            sleep(seconds)
            now -= 1

    for task in [spawn(open_one) for _ in range(count)]:
        task.wait()
    return most


def test_two_inputs_of_an_account_are_opened_at_a_time(pauses: list[float]) -> None:
    turns = Openings()
    assert open_at_once(turns, "a", 8) == 2
    assert not pauses


def test_an_account_with_many_inputs_opens_one_after_another(pauses: list[float]) -> None:
    turns = Openings()
    assert open_at_once(turns, "a", 40, 0.004) <= 2
    # All but the first two, which begin before the others wait.
    assert len(pauses) == 38
    assert all(3 * 0.004 <= pause <= 0.05 for pause in pauses[2:])
    # When all are opened, the account is not paced any more.
    assert open_at_once(turns, "a", 8) == 2
    assert len(pauses) == 38
    assert not turns._paced


def test_a_pause_after_a_slow_opening_has_a_maximum(pauses: list[float]) -> None:
    turns = Openings()
    open_at_once(turns, "a", 20, 0.03)
    assert pauses
    assert max(pauses) == pytest.approx(0.05)


def test_other_accounts_do_not_wait_for_an_account_that_opens(pauses: list[float]) -> None:
    turns, is_over, opened = Openings(), Signal(), []

    def hold() -> None:
        with turns.held("a"):
            while not is_over.is_set:
                sleep(0.001)

    tasks = [spawn(hold) for _ in range(2)]
    sleep(0.005)
    with turns.held("b"):
        opened.append("b")
    is_over.set()
    for task in tasks:
        task.wait()
    assert opened == ["b"]
    assert not pauses


def test_a_task_that_is_ended_in_its_pause_opens_nothing_and_gives_back_its_turn() -> None:
    turns, opened = Openings(), []

    def open_one() -> None:
        with turns.held("a"):
            opened.append(1)
            sleep(0.02)

    tasks = [spawn(open_one) for _ in range(24)]
    sleep(0.04)
    for task in reversed(tasks):
        end(task)
    # The first two; the next two paused, and the others, ended before these, waited for a turn.
    assert len(opened) == 2
    assert open_at_once(turns, "a", 2) == 2
