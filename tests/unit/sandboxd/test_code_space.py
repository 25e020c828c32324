"""The code cache: removed code, kept code, and the replies to filters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd import code_space, code_use
from storlet_middleware.sandboxd.code_space import CodeSpace
from storlet_middleware.sandboxd.threads import Threads
from tests.unit.sandboxd.doubles import FakeNode, greeting, make_storlet, until
from tests.unit.sandboxd.test_pool import loaded, refused

MakeNode = Callable[..., FakeNode]
V1, V2, V3 = ("1" * 64, "2" * 64, "3" * 64)
HOUR = 3600.0


def put(account: Path, name: str, age_seconds: float, size: int = 8192) -> Path:
    """A version that was used so long ago."""
    path = account / name
    path.mkdir(parents=True)
    (path / "file").write_bytes(os.urandom(size))
    set_age(path, age_seconds)
    return path


def set_age(path: Path, age_seconds: float) -> None:
    then = time.time() - age_seconds
    os.utime(path, (then, then))


def removed(root: Path, limit_bytes: int, in_use: set[Path] | None = None) -> set[str]:
    """The code that one sweep would remove."""
    space = CodeSpace(root, limit_bytes, cast("Threads", None))
    gone, _ = space.surplus(space.copies(), in_use or set())
    return {copy.path.name for copy in gone}


def test_no_code_is_evicted_below_the_limit(tmp_path: Path) -> None:
    put(tmp_path / "a", V1, HOUR)
    assert removed(tmp_path, 1 << 20) == set()


def test_the_least_recently_used_version_is_evicted_first_and_no_more_than_needed(
    tmp_path: Path,
) -> None:
    put(tmp_path / "a", V1, 2 * HOUR)
    put(tmp_path / "b", V2, 3 * HOUR)
    put(tmp_path / "b", V3, 1 * HOUR)
    total = sum(copy.bytes for copy in CodeSpace(tmp_path, 0, cast("Threads", None)).copies())
    assert removed(tmp_path, total - 1) == {V2}
    assert removed(tmp_path, total // 3) == {V1, V2}


def test_code_in_use_or_used_recently_is_never_evicted(tmp_path: Path) -> None:
    used = put(tmp_path / "a", V1, HOUR)
    put(tmp_path / "b", V2, HOUR)
    put(tmp_path / "c", V3, code_space.RECENT_SECONDS / 2)
    assert removed(tmp_path, 1, {used, tmp_path / "b"}) == set()
    assert removed(tmp_path, 1) == {V1, V2}


def test_a_partial_fetch_counts_and_is_removed_after_its_timeout(tmp_path: Path) -> None:
    put(tmp_path / "a", ".tmp-old", 2 * HOUR)
    put(tmp_path / "a", ".tmp-new", 60)
    put(tmp_path / "a", V1, HOUR)
    assert removed(tmp_path, 1 << 20) == {".tmp-old"}
    assert removed(tmp_path, 10_000) == {".tmp-old", V1}


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    put(tmp_path / "a", "notes", 9 * HOUR)
    (tmp_path / "a" / V1).symlink_to("/etc")
    (tmp_path / "file").touch()
    assert removed(tmp_path, 1) == set()
    assert removed(tmp_path / "none", 1) == set()


def test_a_version_used_after_the_sweep_began_is_not_evicted(tmp_path: Path) -> None:
    path = put(tmp_path / "a", V1, HOUR)
    space = CodeSpace(tmp_path, 1, cast("Threads", None))
    (copy,) = space.copies()
    space.note_use(path)
    assert space.take(copy) is None
    (copy,) = space.copies()
    taken = space.take(copy)
    assert taken is not None
    assert taken.name.startswith(".tmp-")
    assert not path.exists()
    space.clear([taken])
    assert list((tmp_path / "a").iterdir()) == []


def await_running(node: FakeNode, count: int) -> None:
    """Until then all code of an account stays."""
    until(lambda: [s.state for s in node.status().sandboxes] == count * ["running"])


@pytest.fixture
def small(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node whose cache is full with one version."""
    monkeypatch.setattr(code_use, "EVICT_AFTER_SECONDS", 0.05)
    return make_node(code_cache_bytes=8192)


def test_loading_new_code_removes_old_code_that_no_sandbox_has_loaded(small: FakeNode) -> None:
    code_dir = small.put_code("AUTH_b", V3)
    await_running(small, 1)
    (code_dir / V3 / "file").write_bytes(os.urandom(8192))
    set_age(code_dir / V3, HOUR)
    path = loaded(small.load("AUTH_a", V1))
    until(lambda: not (code_dir / V3).exists())
    assert greeting(path)


def test_code_that_is_loaded_stays_also_after_a_restart_and_in_a_sandbox_that_does_not_name_it(
    small: FakeNode,
) -> None:
    code_dir = small.put_code("AUTH_a", V1)
    (code_dir / V1 / "file").write_bytes(os.urandom(8192))
    loaded(small.load("AUTH_a", V1))
    small.stop()
    set_age(code_dir / V1, HOUR)
    small.start()
    other = small.put_code("AUTH_b", V3)
    await_running(small, 2)
    set_age(other / V3, HOUR)
    loaded(small.load("AUTH_b", V2))
    until(lambda: not (other / V3).exists())
    assert (code_dir / V1 / "file").exists()


def test_a_filter_whose_code_was_evicted_must_fetch_it_again(small: FakeNode) -> None:
    code_dir = small.put_code("AUTH_a", V1)
    (code_dir / V1).rmdir()
    answer = refused(small.ask(messages.Acquire("AUTH_a", make_storlet(version=V1))))
    assert answer.code == "code.missing"
    assert greeting(loaded(small.load("AUTH_a", V1)))
