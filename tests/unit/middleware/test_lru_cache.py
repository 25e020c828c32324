"""A cache that is bounded in bytes."""

from __future__ import annotations

from storlet_middleware.lru_cache import LruCache


def test_the_least_recently_used_value_is_evicted() -> None:
    cache: LruCache[str, bytes] = LruCache(2)
    for key in "ab":
        cache.put(key, key.encode(), 1)
    assert cache.get("a") == b"a"
    cache.put("c", b"c", 1)
    assert [cache.get(key) for key in "abc"] == [b"a", None, b"c"]


def test_a_key_keeps_its_value_and_counts_once() -> None:
    cache: LruCache[str, bytes] = LruCache(2)
    cache.put("a", b"old", 1)
    cache.put("a", b"new", 1)
    cache.put("b", b"b", 1)
    assert [cache.get(key) for key in "ab"] == [b"old", b"b"]


def test_the_last_value_stays_even_if_it_is_too_large() -> None:
    cache: LruCache[str, bytes] = LruCache(2)
    cache.put("a", b"a", 1)
    cache.put("b", b"bbb", 3)
    assert [cache.get(key) for key in "ab"] == [None, b"bbb"]
