"""Intermediate results: in memory, in a file, within a budget."""

from __future__ import annotations

import pytest

from storlet_middleware.errors import Unprocessable
from storlet_middleware.flows.spool import Budget, Spool
from tests.unit.middleware.support import open_descriptors


@pytest.mark.parametrize("size", [0, 1, 16 << 10, 200_000])
def test_what_was_written_is_read(size: int) -> None:
    before, budget = open_descriptors(), Budget(1 << 20)
    spool = Spool(budget)
    for start in range(0, size, 1000):
        spool.write(b"%4d" % start * 250 if start + 1000 <= size else b"x" * (size - start))
    assert spool.size == budget.used_bytes == len(b"".join(spool.chunks()))
    assert b"".join(spool.chunks()) == b"".join(spool)
    spool.close()
    spool.close()
    assert (budget.used_bytes, open_descriptors()) == (0, before)


def test_all_spools_share_the_budget() -> None:
    budget = Budget(10)
    one, other = Spool(budget), Spool(budget)
    one.write(b"123456")
    with pytest.raises(Unprocessable, match="more than 10 bytes"):
        other.write(b"12345")
    one.close()
    other.write(b"12345")
