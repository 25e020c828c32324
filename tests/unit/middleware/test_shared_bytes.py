"""The share of an account, beside its own limit and what others leave."""

from __future__ import annotations

import pytest

from storlet_middleware.errors import NodeBusy, TenantBusy
from storlet_middleware.shared_bytes import SharedBytes


def test_an_account_has_its_limit_and_half_of_what_others_leave() -> None:
    shared = SharedBytes(60, 100, "of the account", "of the process")
    shared.add("a", 60)
    with pytest.raises(TenantBusy, match="of the account"):
        shared.add("a", 1)
    shared.add("b", 20)
    with pytest.raises(NodeBusy, match="of the process"):
        shared.add("b", 1)
    shared.add("c", 10)
    assert shared.used_bytes == 90
    shared.remove("a", 60)
    shared.add("b", 25)
    for account, count in (("b", 45), ("c", 10)):
        shared.remove(account, count)
    assert shared.used_bytes == 0


def test_an_account_alone_may_have_all_that_its_limit_allows() -> None:
    shared = SharedBytes(100, 100, "of the account", "of the process")
    shared.add("a", 100)
    assert shared.used_bytes == 100


def test_a_refused_use_changes_nothing() -> None:
    shared = SharedBytes(10, 100, "of the account", "of the process")
    with pytest.raises(TenantBusy):
        shared.add("a", 11)
    assert shared.used_bytes == 0
