"""Access of one process to the shared table."""

from __future__ import annotations

import os
import time
from pathlib import Path

import eventlet
import pytest

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.controller import snapshot
from storlet_middleware.admission.shared_table import Table
from storlet_middleware.concurrency import spawn
from tests.unit.middleware.admission.slots import MIB, new, take, usage
from tests.unit.middleware.support import open_descriptors


def test_without_a_table_a_process_counts_for_itself_and_logs_it_once(tmp_path: Path) -> None:
    one = new(tmp_path)
    held = [take(one) for _ in range(4)]
    assert one.acquire_at_once(one.claim("a", "g", MIB)) is None
    assert [line.partition(":")[0] for line in one._logger.lines] == ["admission"]
    assert snapshot(tmp_path) == {}
    waiting = spawn(take, one)
    eventlet.sleep(0.01)
    held.pop().release()
    waiting.wait().release()


def test_a_new_or_replaced_table_gets_the_counts_of_running_invocations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlet_middleware.admission.table_access._REOPEN_SECONDS", 0.0)
    one, path = new(tmp_path), tmp_path / shared_table.FILE_NAME
    slot = take(one)
    before = open_descriptors()
    for _ in range(2):
        path.unlink(missing_ok=True)
        shared_table.create(path, os.getgid())
        take(one, "b").release()
        assert usage(tmp_path) == {"a": (1, 0)}
    slot.release()
    assert usage(tmp_path) == {}
    assert open_descriptors() == before + 2, "the file and its mapping, once"


def test_a_table_locked_by_a_stopped_process_delays_others_briefly(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder was stopped at the worst moment."""
    monkeypatch.setattr("storlet_middleware.admission.table_access._LOCKED_OUT_SECONDS", 0.2)
    one, stopped = new(run_dir), Table.claim(run_dir / shared_table.FILE_NAME)
    take(one).release()
    assert stopped.lock()
    began = time.monotonic()
    slot = take(one)
    assert 0.1 < time.monotonic() - began < 5
    assert "locked" in one._logger.text
    stopped.unlock()
    slot.release()
    assert usage(run_dir) == {}
    stopped.close()


def test_a_lock_that_is_often_taken_has_no_stopped_holder(run_dir: Path) -> None:
    """A process that counted for itself would exceed the capacity of the node."""
    one, other = new(run_dir), Table.claim(run_dir / shared_table.FILE_NAME)
    take(one).release()
    claim = one.claim("a", "g", 1)
    for now in (100.0, 100.9, 101.8, 102.7):
        assert other.lock()
        assert one._counts.decide(lambda *_: "for itself", claim, now) is None
        other.unlock()
        assert one._counts.decide(lambda *_: "with the lock", claim, now) == "with the lock"
    other.close()


def test_a_forked_process_leaves_the_region_to_its_parent(run_dir: Path) -> None:
    one = new(run_dir)
    slot = take(one)
    child = os.fork()
    if not child:
        own = take(one, "b")
        is_right = usage(run_dir) == {"a": (1, 0), "b": (1, 0)}
        slot.release()  # its parent's
        is_right = is_right and usage(run_dir) == {"a": (1, 0), "b": (1, 0)}
        del own
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert usage(run_dir) == {"a": (1, 0)}
    slot.release()
