"""The shared table of a node's invocations: file format, regions, locks."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.controller import snapshot
from storlet_middleware.admission.fairness import Row
from storlet_middleware.admission.shared_table import Table, TableFault, Usage
from storlet_middleware.errors import NodeBusy, TenantBusy
from tests.unit.middleware.admission.slots import new, take, usage


def test_a_valid_table_is_kept(run_dir: Path) -> None:
    path = run_dir / shared_table.FILE_NAME
    before = path.stat()
    slot = take(new(run_dir))
    shared_table.create(path, os.getgid())
    after = path.stat()
    assert (after.st_ino, after.st_mode & 0o777, after.st_size) == (
        before.st_ino,
        0o660,
        shared_table.SIZE,
    )
    assert usage(run_dir) == {"a": (1, 0)}
    slot.release()


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"OLDTABLE" + bytes(shared_table.SIZE - 8)])
def test_a_table_of_another_format_is_replaced(run_dir: Path, content: bytes) -> None:
    path = run_dir / shared_table.FILE_NAME
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(TableFault):
        snapshot(run_dir)
    shared_table.create(path, os.getgid())
    assert snapshot(run_dir) == {}
    assert [entry.name for entry in run_dir.iterdir()] == [path.name]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"mine")
    link = tmp_path / shared_table.FILE_NAME
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        Table(link)
    shared_table.create(link, os.getgid())
    assert (target.read_bytes(), link.is_symlink()) == (b"mine", False)


def test_garbage_in_a_region_is_no_error(run_dir: Path) -> None:
    """A killed process can leave a partial row, or worse."""
    other, one = (
        Table.claim(run_dir / shared_table.FILE_NAME),
        new(run_dir, invocation__queue_seconds="0.01"),
    )
    for seed in range(200):
        garbage = random.Random(seed).randbytes(shared_table._ROW.size * 3)  # noqa: S311 - the same each time
        other._bytes[4096 + 64 : 4096 + 64 + len(garbage)] = garbage
        other.keep(3 + (seed % 7 == 0) * 10_000)
        with contextlib.suppress(NodeBusy, TenantBusy):
            take(one).release()
    other.close()
    take(one).release()


def test_a_region_is_free_after_its_owner_has_closed_it(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_table, "REGIONS", 2)
    path = run_dir / shared_table.FILE_NAME
    tables = [Table.claim(path), Table.claim(path)]
    with pytest.raises(TableFault, match="all 2 regions"):
        Table.claim(path)
    tables[0].close()
    Table.claim(path).close()
    tables[1].close()


def row(tenant: bytes = b"t" * 16, running: int = 1, waiting: int = 0) -> Row:
    return Row(tenant, b"g" * 16, running, waiting, 1.5, 1 << 20, 2.0, 3.5, 4.5)


@pytest.fixture
def tables(run_dir: Path) -> Iterator[tuple[Table, Table]]:
    """The views of two processes."""
    path = run_dir / shared_table.FILE_NAME
    both = Table.claim(path), Table.claim(path)
    yield both
    for table in both:
        table.close()


def test_a_published_row_arrives_as_it_was_written(tables: tuple[Table, Table]) -> None:
    one, other = tables
    before = other.changes()
    one.write(0, row(running=2))
    one.write(1, row(waiting=3))
    one.take_part(10.0)
    ((polls, rows),) = other.others(now=10.1)
    assert (polls, [Row(*each) for each in rows]) == (True, [row(running=2), row(waiting=3)])
    assert list(one.others(now=10.1)) == [], "its own rows are not another process'"
    assert other.changes() != before


def test_lower_counts_and_fewer_rows_are_seen_by_others(tables: tuple[Table, Table]) -> None:
    one, other = tables
    one.write(0, row(running=2))
    one.write(1, row())
    one.lower(0, row(running=1))
    one.keep(1)
    ((_, rows),) = other.others(now=0.0)
    assert [Row(*each).running for each in rows] == [1]
    assert one.is_last(0)


def test_a_process_that_does_not_poll_is_absent(tables: tuple[Table, Table]) -> None:
    one, other = tables
    one.write(0, row(waiting=1))
    one.take_part(10.0)
    (absent,) = (not polls for polls, _ in other.others(now=10.0 + 1.0))
    assert absent


def test_the_lock_has_one_holder(tables: tuple[Table, Table]) -> None:
    one, other = tables
    assert one.lock()
    assert not other.lock()
    one.unlock()
    assert other.lock()
    other.unlock()


def test_a_snapshot_waits_for_a_row_that_is_being_written(
    tables: tuple[Table, Table], run_dir: Path
) -> None:
    one, _ = tables
    assert one.lock()
    one.write(0, row(running=3)._replace(tenant=b"\0" * 16))  # as half-written
    seen: list[dict[str, Usage]] = []
    reader = threading.Thread(target=lambda: seen.append(shared_table.snapshot(run_dir)))
    reader.start()
    one.write(0, row(running=3))
    one.unlock()
    reader.join()
    assert seen == [{(b"t" * 16).hex(): Usage(3, 0)}]
    assert one.lock(), "the reader released it"
    one.unlock()


def test_a_snapshot_does_not_depend_on_a_stopped_holder_of_the_lock(
    tables: tuple[Table, Table], run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = tables
    monkeypatch.setattr(shared_table, "_SNAPSHOT_SECONDS", 0.02)
    assert one.lock()
    one.write(0, row(running=3))
    assert shared_table.snapshot(run_dir) == {(b"t" * 16).hex(): Usage(3, 0)}
    one.unlock()


def test_rows_of_a_dead_process_are_forgotten_and_not_counted(run_dir: Path) -> None:
    path = run_dir / shared_table.FILE_NAME
    with contextlib.closing(Table.claim(path)) as living:
        dead = Table.claim(path)
        dead.write(0, row(running=5))
        assert not living.forget_dead()
        assert shared_table.snapshot(run_dir) == {(b"t" * 16).hex(): Usage(5, 0)}
        dead.abandon()  # closes its locks, as the kernel does when a process ends
        assert shared_table.snapshot(run_dir) == {}
        assert living.forget_dead()
        assert not living.forget_dead()


def test_a_node_without_a_table_has_no_usage(tmp_path: Path) -> None:
    assert shared_table.snapshot(tmp_path) == {}
