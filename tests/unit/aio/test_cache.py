"""Parts that clusters share are built once and are never incomplete."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from storlet_middleware.aio import cache


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_part_is_built_once() -> None:
    calls: list[Path] = []
    first = cache.made("kind", "key", calls.append)
    assert cache.made("kind", "key", calls.append) == first
    assert calls == [first]


def test_an_interrupted_build_starts_again_from_scratch() -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.made("kind", "key", fail)
    found: list[list[Path]] = []
    cache.made("kind", "key", lambda place: found.append(list(place.iterdir())))
    assert found == [[]]


def test_unused_parts_are_deleted(root: Path) -> None:
    old = cache.made("kind", "old", lambda _: None)
    other = cache.made("other", "old", lambda _: None)
    long_ago = time.time() - (cache.KEEP_DAYS + 1) * 86400
    for place in (old, other):
        os.utime(place / ".complete", (long_ago, long_ago))
    cache.made("kind", "new", lambda _: None)
    assert not old.exists()
    assert other.exists()


def test_parts_of_running_clusters_are_kept() -> None:
    below = cache.made("deps", "a", lambda _: None)
    above = cache.made(
        "code", "b", lambda place: (place / ".below").write_text(f"{below}\n") and None
    )
    for place in (below, above):
        os.utime(place / ".complete", (0, 0))
    cache.touch(above)
    assert (below / ".complete").stat().st_mtime > 0
    assert (above / ".complete").stat().st_mtime > 0


def test_the_hash_sees_names_contents_and_the_executable_bit(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("1")
    seen = {cache.tree_digest(tmp_path, ["tree"])}
    (tree / "a").write_text("2")
    seen.add(cache.tree_digest(tmp_path, ["tree"]))
    (tree / "a").chmod(0o755)
    seen.add(cache.tree_digest(tmp_path, ["tree"]))
    (tree / "a").rename(tree / "b")
    seen.add(cache.tree_digest(tmp_path, ["tree"]))
    assert len(seen) == 4


def test_the_hash_ignores_leftovers_of_tools(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.py").write_text("1")
    before = cache.tree_digest(tmp_path, ["tree"])
    for name in ("__pycache__/a.pyc", "target/x.class", ".mypy_cache/x", "build/x"):
        (tree / name).parent.mkdir()
        (tree / name).write_text("x")
    assert cache.tree_digest(tmp_path, ["tree"]) == before


def test_parts_do_not_run_together() -> None:
    assert cache.digest(["ab", "c"]) != cache.digest(["a", "bc"])
