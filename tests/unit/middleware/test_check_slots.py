"""Checks of rules and bundles, shared fairly by accounts."""

from __future__ import annotations

import pytest

from storlet_middleware.check_slots import CheckSlots, NoSlot
from storlet_middleware.concurrency import sleep, spawn


class Checks:
    """Checks that run until the test ends them; ``begun`` has their accounts in order."""

    def __init__(self, slots: int) -> None:
        self.slots = CheckSlots(slots)
        self.begun: list[str] = []
        self.running: dict[str, int] = {}
        self.is_over = False

    def check(self, account: str) -> None:
        with self.slots.held(account, 5):
            self.begun.append(account)
            self.running[account] = self.running.get(account, 0) + 1
            assert self.running[account] == 1
            while not self.is_over:
                sleep(0.001)
            self.running[account] -= 1


def test_an_account_with_many_uploads_leaves_a_slot_to_others() -> None:
    checks = Checks(2)
    tasks = [spawn(checks.check, "many") for _ in range(6)]
    sleep(0.01)
    tasks.append(spawn(checks.check, "one"))
    sleep(0.01)
    assert checks.begun == ["many", "one"]
    checks.is_over = True
    for task in tasks:
        task.wait()
    assert sorted(checks.begun) == ["many"] * 6 + ["one"]


def test_an_account_waits_for_one_check_of_another_only() -> None:
    checks = Checks(1)
    tasks = [spawn(checks.check, "many") for _ in range(3)]
    sleep(0.01)
    tasks.append(spawn(checks.check, "one"))
    sleep(0.01)
    checks.is_over = True
    for task in tasks:
        task.wait()
    assert checks.begun.index("one") == 1


@pytest.mark.parametrize("account", ["a", "b"])
def test_waiting_ends_and_leaves_nothing_behind(account: str) -> None:
    slots = CheckSlots(1)
    with slots.held("a", 1):
        with pytest.raises(NoSlot), slots.held(account, 0.01):
            pass
        assert list(slots._accounts._used) == ["a"]
    assert not slots._accounts._used
    with slots.held(account, 0.01):
        pass


def test_a_check_that_fails_releases_its_slots() -> None:
    slots = CheckSlots(1)
    with pytest.raises(ZeroDivisionError), slots.held("a", 1):
        raise ZeroDivisionError
    with slots.held("a", 0.01):
        pass
