"""pointer.py and store.py: which rules are in force, and how a proxy comes by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swift.proxy.controllers.base import get_cache_key

from storlet_middleware.concurrency import sleep, spawn
from storlet_middleware.errors import RulesUnavailable
from storlet_middleware.ruleset import pointer, store
from storlet_middleware.ruleset.pointer import Pointer
from tests.unit.middleware.rules_account import (
    MANDATORY,
    ORDINARY,
    AccountSwift,
    InfoCache,
    RulesProxy,
)
from tests.unit.middleware.support import ACCOUNT

SHA = "0" * 64


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer, "_STALE_CHECKS_SECONDS", (0.0, 0.01))


@pytest.fixture
def swift() -> AccountSwift:
    return AccountSwift()


@pytest.fixture
def proxy(swift: AccountSwift, tmp_path: Path) -> RulesProxy:
    return RulesProxy(swift, tmp_path, InfoCache())


def another(proxy: RulesProxy, tmp_path: Path, *, shares: bool = True) -> RulesProxy:
    return RulesProxy(proxy.swift, tmp_path, proxy.memcache if shares else InfoCache())


def gets(swift: AccountSwift) -> int:
    return len([seen for seen in swift.requests("GET") if "/storlet_rules/" in seen.path])


# --- pointers


@pytest.mark.parametrize("is_mandatory", [True, False])
def test_a_pointer_says_what_it_was_made_of(*, is_mandatory: bool) -> None:
    pointer = Pointer.to(SHA, is_mandatory=is_mandatory, after=None)
    assert Pointer.read(pointer.text) == pointer
    assert pointer.name == f"versions/{pointer.time}-{SHA[:12]}.yaml"


def test_a_pointer_to_nothing_keeps_its_time() -> None:
    pointer = Pointer.to_none(after=None)
    assert Pointer.read(pointer.text) == pointer
    assert not pointer.version


def test_later_pointers_are_later_whatever_the_clocks_say() -> None:
    ahead = Pointer("", False, "", "20990101T000000.999999Z")
    following = Pointer.to(SHA, is_mandatory=False, after=ahead)
    assert following.time == "20990101T000001.000000Z"
    assert ahead.time < following.time < following.renewed(after=following).time


@pytest.mark.parametrize(
    "text", ["", "x", f"{SHA} perhaps 20260101T000000.000000Z versions/a.yaml", "- none now"]
)
def test_what_this_release_does_not_know_closes_the_account(
    proxy: RulesProxy, swift: AccountSwift, text: str
) -> None:
    with pytest.raises(ValueError, match="not a valid pointer to rules"):
        Pointer.read(text)
    swift.replicas[0]["X-Account-Sysmeta-Storlet-Rules"] = text or "?"
    with pytest.raises(RulesUnavailable):
        proxy.of()


# --- reading


def test_an_account_without_rules_costs_nothing_but_its_metadata(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    for _ in range(3):
        assert proxy.of() is None
    assert [seen.method for seen in swift.seen] == ["HEAD"]


def test_swift_keeps_what_it_knows_of_an_account_where_it_is_looked_for() -> None:
    """Elsewhere it would be found as well, at a price that every request pays."""
    assert get_cache_key(ACCOUNT) == pointer._INFO + ACCOUNT


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


def test_either_copy_of_a_version_will_do(proxy: RulesProxy, swift: AccountSwift) -> None:
    proxy.upload(MANDATORY)
    del swift.containers["storlet_rules"].objects[swift.pointer.split()[-1]]  # type: ignore[union-attr]
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


def test_rules_that_cannot_be_read_are_none_otherwise(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(ORDINARY)
    swift.containers["storlet_rules"].objects.clear()
    assert proxy.of() is None
    assert "are not applied" in proxy.logger.text


def test_a_reader_that_fails_fails_alike_for_all_who_wait(
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


def test_what_another_proxy_remembered_too_late_is_forgotten(
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


def test_it_does_not_do_so_for_ever(
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


# --- an account that cannot be looked at


def test_nothing_passes_while_it_is_not_known_whether_there_are_rules(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.status = 503
    with pytest.raises(RulesUnavailable):
        proxy.of()


def test_what_a_proxy_has_seen_holds_meanwhile(proxy: RulesProxy, swift: AccountSwift) -> None:
    proxy.upload(MANDATORY)
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.names() == ["closed"]


def test_an_account_that_was_seen_without_rules_is_served_for_a_while(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proxy.of() is None
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.of() is None
    monkeypatch.setattr(pointer, "_TRUSTED_SECONDS", 0.0)
    with pytest.raises(RulesUnavailable):
        proxy.of()


def test_rules_that_came_later_are_not_forgotten_for_what_was_seen_before(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    assert proxy.of() is None
    proxy.upload(MANDATORY)
    assert proxy.names() == ["closed"]
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.names() == ["closed"]


def test_an_account_that_does_not_exist_has_no_rules(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.status = 404
    assert proxy.of() is None


@pytest.mark.parametrize("account", ["a" * 300, "a\0b"])
def test_names_that_no_account_has_are_left_to_swift(
    proxy: RulesProxy, swift: AccountSwift, account: str
) -> None:
    swift.status = 400
    environ = proxy.environ("GET", "a/b")
    assert proxy.store.of(environ, "v1", account) is None


def test_a_path_of_no_version_of_the_interface_is_left_to_swift(proxy: RulesProxy) -> None:
    environ = proxy.environ("GET", "a/b")
    assert proxy.store.of(environ, "v1x", ACCOUNT) is None


def test_of_how_many_accounts_is_remembered_what_was_seen(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pointer, "_REMEMBERED", 1)
    proxy.upload(ORDINARY)
    proxy.of()
    swift.status = 503
    with pytest.raises(RulesUnavailable):
        proxy.store.of(proxy.environ("GET", "a/b"), "v1", "AUTH_other")
    assert proxy.names() == ["night"]


def test_a_change_while_swift_is_asked_counts_more_than_what_swift_says(
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
