"""The table of sandboxes: one entry per key; only the current entry can be deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from storlet_middleware.sandboxd.plan import Demand
from storlet_middleware.sandboxd.pool.table import SandboxTable
from storlet_middleware.sandboxd.sandbox.sandbox import State

ONE, OTHER = Demand("AUTH_a", "user", "image"), Demand("AUTH_b", "user", "image")


def sandbox(state: State = State.RUNNING) -> Any:
    """The table reads nothing but the state of a sandbox."""
    return cast("Any", SimpleNamespace(state=state))


class Hashable(SimpleNamespace):
    """A stand-in for a sandbox that can be a member of a set."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_an_entry_is_found_by_the_key_of_its_demand() -> None:
    table = SandboxTable(recent_max=4)
    entry = table.add(ONE)
    assert table.get(ONE.key) is entry
    assert (entry.key, entry.account) == (ONE.key, "AUTH_a")
    assert table.get(OTHER.key) is None


def test_a_replaced_entry_neither_counts_nor_deletes_its_successor() -> None:
    table = SandboxTable(recent_max=4)
    old, new = table.add(ONE), table.add(ONE)
    assert not table.has(old)
    table.delete(old)
    assert table.has(new)
    table.delete(new)
    table.delete(new)
    assert len(table) == 0


@pytest.mark.parametrize("state", list(State))
def test_only_sandboxes_in_the_state_running_are_running(state: State) -> None:
    table = SandboxTable(recent_max=4)
    entry = table.add(ONE)
    assert table.running() == []
    entry.sandbox = sandbox(state)
    assert table.running() == ([entry] if state is State.RUNNING else [])


def test_draining_sandboxes_count_and_entries_without_a_sandbox_have_none() -> None:
    table = SandboxTable(recent_max=4)
    first = table.add(ONE)
    table.add(OTHER)
    first.sandbox, draining = sandbox(), cast("Any", Hashable())
    table.draining.add(draining)
    assert len(table) == 3
    assert list(table.sandboxes()) == [draining, first.sandbox]


def test_only_the_last_ends_are_remembered() -> None:
    table = SandboxTable(recent_max=2)
    table.recently_ended.extend("abc")
    assert list(table.recently_ended) == ["b", "c"]
