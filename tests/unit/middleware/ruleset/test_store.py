"""pointer.py and store.py: which rules are in force, and how a proxy comes by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.concurrency import WaitExpired, sleep, spawn
from storlet_middleware.errors import RulesUnavailable
from storlet_middleware.ruleset import pointer, store
from tests.unit.middleware.rules_account import (
    MANDATORY,
    ORDINARY,
    AccountSwift,
    InfoCache,
    RulesProxy,
)
from tests.unit.middleware.support import ACCOUNT


def another(proxy: RulesProxy, tmp_path: Path, *, shares: bool = True) -> RulesProxy:
    return RulesProxy(proxy.swift, tmp_path, proxy.memcache if shares else InfoCache())


def gets(swift: AccountSwift) -> int:
    return len([seen for seen in swift.requests("GET") if "/storlet_rules/" in seen.path])


# --- reading


def test_an_account_without_rules_costs_nothing_but_its_metadata(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    for _ in range(3):
        assert proxy.of() is None
    assert [seen.method for seen in swift.seen] == ["HEAD"]


def test_a_request_keeps_to_the_rules_that_it_has_begun_with(proxy: RulesProxy) -> None:
    environ = proxy.environ("GET", "a/b")
    assert proxy.store.of(environ, "v1", ACCOUNT) is None
    proxy.upload(MANDATORY)
    assert proxy.store.of(environ, "v1", ACCOUNT) is None
    assert proxy.names() == ["closed"]


def test_a_version_is_read_once(proxy: RulesProxy, swift: AccountSwift) -> None:
    proxy.upload(MANDATORY)
    for _ in range(3):
        assert proxy.names() == ["closed"]
    assert gets(swift) == 1
    assert proxy.of().has_mandatory


def test_many_requests_at_a_time_read_a_version_once(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(ORDINARY)
    version = swift.pointer.split()[-1]  # type: ignore[union-attr]
    swift.hooks["GET", f"/v1/{ACCOUNT}/storlet_rules/{version}"] = lambda _: sleep(0.05)
    tasks = [spawn(proxy.names) for _ in range(5)]
    assert [task.wait() for task in tasks] == [["night"]] * 5
    assert gets(swift) == 1


def test_a_request_keeps_the_rules_that_it_began_with(proxy: RulesProxy) -> None:
    proxy.upload(ORDINARY)
    environ = proxy.environ("GET", "a/b")
    first = proxy.store.of(environ, "v1", ACCOUNT)
    proxy.upload(MANDATORY)
    assert proxy.store.of(environ, "v1", ACCOUNT) is first
    assert proxy.names() == ["closed"]


def lose(swift: AccountSwift) -> None:
    objects = swift.containers["storlet_rules"].objects
    del objects["rules.yaml"]
    for stored in objects.values():
        stored.body = stored.body.replace(b"never", b"often")


def test_rules_that_cannot_be_read_close_an_account_with_mandatory_ones(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    lose(swift)
    with pytest.raises(RulesUnavailable, match=r"is not the version in force.*404") as caught:
        proxy.of()
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (
        503,
        "rules.unavailable",
        1,
    )


def test_a_closed_account_does_not_keep_swift_busy(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_FAILED", 1)
    proxy.upload(MANDATORY)
    stored = dict(swift.containers["storlet_rules"].objects)
    swift.containers["storlet_rules"].objects.clear()
    for _ in range(3):
        with pytest.raises(RulesUnavailable):
            proxy.of()
    assert gets(swift) == 2
    swift.containers["storlet_rules"].objects.update(stored)
    monkeypatch.setattr(store, "_FAILED_SECONDS", 0.0)
    assert proxy.names() == ["closed"]


def test_long_rules_are_parsed_by_another_process(
    proxy: RulesProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: bytes) -> None:
        raise AssertionError("parsed in the server's own process")

    monkeypatch.setattr(store, "_parse", refuse)
    proxy.upload(MANDATORY + b"#" * store._SHORT_BYTES)
    assert proxy.names() == ["closed"]


@pytest.mark.parametrize("why", ["killed", "late", "faults"])
def test_an_account_is_closed_while_its_long_rules_cannot_be_parsed(
    proxy: RulesProxy, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def run(*_: Any) -> tuple[int, bytes]:
        if why == "late":
            raise WaitExpired
        return (-9, b"") if why == "killed" else (0, b"")

    proxy.upload(MANDATORY + b"#" * store._SHORT_BYTES)
    monkeypatch.setattr(store.child, "run", run)
    with pytest.raises(RulesUnavailable):
        proxy.of()


def test_rules_that_cannot_be_read_are_none_otherwise(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(ORDINARY)
    swift.containers["storlet_rules"].objects.clear()
    assert proxy.of() is None
    assert "are not applied" in proxy.logger.text


def test_a_failed_read_fails_for_all_waiting_requests(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    version = swift.pointer.split()[-1]  # type: ignore[union-attr]

    def crash(_: Any) -> None:
        sleep(0.02)
        raise ZeroDivisionError

    swift.hooks["GET", f"/v1/{ACCOUNT}/storlet_rules/{version}"] = crash
    said = []

    def ask() -> None:
        try:
            proxy.of()
        except RulesUnavailable as error:
            said.append(str(error))

    for task in [spawn(ask) for _ in range(3)]:
        task.wait()
    assert len(said) == 3
    assert proxy.logger.text.count("Traceback") == 1


def test_the_least_recently_used_rules_go_first(swift: AccountSwift, tmp_path: Path) -> None:
    proxy = RulesProxy(swift, tmp_path, InfoCache(), rules__cache_bytes=str(len(ORDINARY) + 1))
    proxy.upload(ORDINARY)
    proxy.of()
    proxy.upload(MANDATORY)
    proxy.of()
    proxy.of()
    assert gets(swift) == 2
    proxy.upload(ORDINARY)
    assert proxy.names() == ["night"]
    assert gets(swift) == 3


def test_without_memcached_every_request_sees_what_is_in_force(
    swift: AccountSwift, tmp_path: Path
) -> None:
    proxy = RulesProxy(swift, tmp_path)
    assert proxy.names() == []
    proxy.upload(ORDINARY)
    assert proxy.names() == ["night"]


# --- other proxies, and replicas that are behind


def test_a_change_is_in_force_at_once_on_proxies_that_share_memcached(
    proxy: RulesProxy, tmp_path: Path
) -> None:
    other = another(proxy, tmp_path)
    assert other.names() == []
    proxy.upload(ORDINARY)
    assert other.names() == ["night"]
    proxy.upload(MANDATORY)
    assert other.names() == ["closed"]
    proxy.call("DELETE")
    assert other.names() == []


def test_an_entry_that_another_proxy_remembered_too_late_is_forgotten(
    proxy: RulesProxy, swift: AccountSwift, tmp_path: Path
) -> None:
    """It read the account before the change, and says so to memcached after it."""
    other = another(proxy, tmp_path)
    assert other.names() == []
    key = next(key for key in proxy.memcache.values if key.startswith("account/"))  # type: ignore[union-attr]
    old = proxy.memcache.values[key]  # type: ignore[union-attr]

    def late() -> None:
        swift.on_read = None
        proxy.memcache.values[key] = old  # type: ignore[union-attr]

    def changed(_: Any) -> None:
        swift.on_read = late

    swift.hooks["POST", f"/v1/{ACCOUNT}"] = changed
    proxy.upload(MANDATORY)
    assert swift.on_read is None
    assert other.names() == ["closed"]


def test_a_proxy_that_has_seen_newer_rules_keeps_to_them(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.replicas.append({})
    proxy.upload(MANDATORY)
    swift.replicas[1].clear()
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    swift.asked = 1
    assert proxy.names() == ["closed"]
    # Nor does memcached keep what the replica that is behind says.
    assert not proxy.memcache.values  # type: ignore[union-attr]


def test_it_does_not_do_so_forever(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.upload(MANDATORY)
    swift.replicas[0].clear()
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.names() == ["closed"]
    monkeypatch.setattr(pointer, "_TRUSTED_SECONDS", 0.0)
    assert proxy.names() == []
    monkeypatch.undo()
    assert proxy.names() == []


# --- an account without a known state


def test_rules_that_came_later_are_not_forgotten_for_what_was_seen_before(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    assert proxy.of() is None
    proxy.upload(MANDATORY)
    assert proxy.names() == ["closed"]
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.names() == ["closed"]


def test_a_path_of_no_version_of_the_interface_is_left_to_swift(proxy: RulesProxy) -> None:
    environ = proxy.environ("GET", "a/b")
    assert proxy.store.of(environ, "v1x", ACCOUNT) is None


def test_a_change_during_a_query_of_swift_takes_precedence_over_the_reply(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    def change() -> None:
        swift.on_read = None
        proxy.upload(MANDATORY)

    swift.on_read = change
    assert proxy.names() == ["closed"]
    assert proxy.names() == ["closed"]


def test_rules_that_came_here_are_not_forgotten_for_what_was_seen_before(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when too many other accounts have been seen since."""
    monkeypatch.setattr(pointer, "_REMEMBERED", 1)
    assert proxy.of() is None
    proxy.upload(MANDATORY)
    with pytest.raises(RulesUnavailable):
        proxy.store.of(proxy.environ("GET", "a/b"), "v1", "AUTH_other")
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    with pytest.raises(RulesUnavailable):
        proxy.of()
