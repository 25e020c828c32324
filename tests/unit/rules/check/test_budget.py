"""Budgets: the steps that are left, exhaustion, and the shared budget."""

from __future__ import annotations

import pytest

from rules.check.budget import Budget, UndecidedError


def test_a_budget_can_be_spent_to_its_last_step() -> None:
    budget = Budget(3)
    budget.spend()
    budget.spend(2)
    assert budget.left == 0
    with pytest.raises(UndecidedError):
        budget.spend()


def test_an_exhausted_budget_stays_exhausted() -> None:
    budget = Budget(1)
    for steps in (2, 0, 1):
        with pytest.raises(UndecidedError):
            budget.spend(steps)


def test_the_shared_budget_is_charged_by_each_part() -> None:
    total = Budget(10)
    for _ in range(2):
        Budget(5, total).spend(4)
    assert total.left == 2
    part = Budget(5, total)
    with pytest.raises(UndecidedError):
        part.spend(3)
    assert part.left == 2, "the part itself has steps left"


def test_steps_beyond_the_own_budget_are_not_charged_to_the_shared_one() -> None:
    total = Budget(10)
    with pytest.raises(UndecidedError):
        Budget(3, total).spend(4)
    assert total.left == 10
