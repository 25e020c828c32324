"""The code cache: removed code, kept code, and the replies to filters."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import cast

from storlet_middleware.sandboxd.directories import code_space
from storlet_middleware.sandboxd.directories.code_space import CodeSpace
from storlet_middleware.sandboxd.threads import Threads

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


def test_versions_that_share_files_count_them_once_together(tmp_path: Path) -> None:
    one, two = (tmp_path / "account" / (name * 64) for name in "ab")
    for folder in (one, two):
        folder.mkdir(parents=True)
    (one / "shared").write_bytes(bytes(1 << 20))
    alone = sum(copy.bytes for copy in CodeSpace(tmp_path, 0, Threads()).copies())
    (two / "shared").hardlink_to(one / "shared")
    copies = CodeSpace(tmp_path, 0, Threads()).copies()
    assert sum(copy.bytes for copy in copies) == alone
    assert copies[0].bytes == copies[1].bytes > 1 << 19
