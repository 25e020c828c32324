"""The counts of a node: its capacity, and decisions under the lock of the table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.node_counts import NodeCounts
from storlet_middleware.admission.shared_table import Table
from storlet_middleware.config import NodeSection
from storlet_middleware.node_memory import host_memory, memory_total
from tests.unit.middleware.admission.slots import MIB, new, take
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import make_config


def test_memory_bounds_the_groups_that_run(run_dir: Path) -> None:
    one = new(run_dir, node__memory="100M", limits__memory_bytes="100M")
    held = [
        take(one, "a", "x", 40 * MIB),
        take(one, "a", "x", 40 * MIB),
        take(one, "b", "x", 40 * MIB),
    ]
    assert one.acquire_at_once(one.claim("c", "x", 40 * MIB)) is None
    held[1].release()
    assert one.acquire_at_once(one.claim("c", "x", 40 * MIB)) is None, "the group still runs"
    held[0].release()
    assert one.acquire_at_once(one.claim("c", "x", 40 * MIB)) is not None


def test_the_node_has_the_memory_that_the_operator_says() -> None:
    assert memory_total(NodeSection(5, 0, 256, 1), host_memory()) == 5
    assert memory_total(NodeSection(0.5, 0, 256, 1), host_memory()) == pytest.approx(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2, rel=0.02
    )


def test_a_table_is_read_without_its_lock_while_another_process_has_it(run_dir: Path) -> None:
    counts = NodeCounts(make_config(run_dir), Logger(), 8)
    assert counts.decide(lambda table, said, _now: (table, said), "a", 0.0) == (counts.table, "a")
    with counts.locked_if_free() as table:
        assert table is counts.table is not None
    other = Table.claim(run_dir / shared_table.FILE_NAME)
    assert other.lock(), "the block has ended"
    with counts.locked_if_free() as table:
        assert table is counts.table
    other.unlock()
    other.close()


def test_a_process_without_a_table_decides_alone(tmp_path: Path) -> None:
    counts = NodeCounts(make_config(tmp_path), Logger(), 8)
    assert counts.decide(lambda table, said, _now: (table, said), "a", 0.0) == (None, "a")
    with counts.locked_if_free() as table:
        assert table is None
