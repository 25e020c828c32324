"""The pointer to the rules in force, and its last known state."""

from __future__ import annotations

import pytest
from swift.proxy.controllers.base import get_cache_key

from storlet_middleware.errors import RulesUnavailable
from storlet_middleware.ruleset import pointer
from storlet_middleware.ruleset.pointer import Pointer
from storlet_middleware.wsgi.account_info import KEY_PREFIX
from tests.unit.middleware.rules_account import MANDATORY, ORDINARY, AccountSwift, RulesProxy
from tests.unit.middleware.support import ACCOUNT

SHA = "0" * 64


@pytest.mark.parametrize("is_mandatory", [True, False])
def test_the_text_of_a_pointer_can_be_read_back(*, is_mandatory: bool) -> None:
    pointer = Pointer.to(SHA, is_mandatory=is_mandatory, after=None)
    assert Pointer.read(pointer.text) == pointer
    assert pointer.name == f"versions/{pointer.time}-{SHA[:12]}.yaml"


def test_a_pointer_to_removed_rules_keeps_its_time() -> None:
    pointer = Pointer.to_none(after=None)
    assert Pointer.read(pointer.text) == pointer
    assert not pointer.version


def test_a_new_pointer_is_later_than_the_old_one_with_any_clock() -> None:
    ahead = Pointer("", False, "", "20990101T000000.999999Z")
    following = Pointer.to(SHA, is_mandatory=False, after=ahead)
    assert following.time == "20990101T000001.000000Z"
    assert ahead.time < following.time < following.renewed(after=following).time


@pytest.mark.parametrize(
    "text", ["", "x", f"{SHA} perhaps 20260101T000000.000000Z versions/a.yaml", "- none now"]
)
def test_a_pointer_in_an_unknown_format_closes_the_account(
    proxy: RulesProxy, swift: AccountSwift, text: str
) -> None:
    with pytest.raises(ValueError, match="not a valid pointer to rules"):
        Pointer.read(text)
    swift.replicas[0]["X-Account-Sysmeta-Storlet-Rules"] = text or "?"
    with pytest.raises(RulesUnavailable):
        proxy.of()


def test_the_prefix_of_account_information_is_swifts() -> None:
    """Elsewhere it would be found as well, at a price that every request pays."""
    assert get_cache_key(ACCOUNT) == KEY_PREFIX + ACCOUNT


def test_requests_are_refused_while_the_state_of_the_account_is_unknown(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.status = 503
    with pytest.raises(RulesUnavailable):
        proxy.of()


def test_the_last_known_state_applies_without_account_servers(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.names() == ["closed"]


def test_an_account_last_seen_without_rules_is_served_for_a_while(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proxy.of() is None
    swift.status = 503
    proxy.memcache.values.clear()  # type: ignore[union-attr]
    assert proxy.of() is None
    monkeypatch.setattr(pointer, "_TRUSTED_SECONDS", 0.0)
    with pytest.raises(RulesUnavailable):
        proxy.of()


def test_an_account_that_does_not_exist_has_no_rules(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.status = 404
    assert proxy.of() is None


@pytest.mark.parametrize("account", ["a" * 300, "a\0b"])
def test_invalid_account_names_are_left_to_swift(
    proxy: RulesProxy, swift: AccountSwift, account: str
) -> None:
    swift.status = 400
    environ = proxy.environ("GET", "a/b")
    assert proxy.store.of(environ, "v1", account) is None


def test_the_number_of_remembered_accounts_is_bounded(
    proxy: RulesProxy, swift: AccountSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pointer, "_REMEMBERED", 1)
    proxy.upload(ORDINARY)
    proxy.of()
    swift.status = 503
    with pytest.raises(RulesUnavailable):
        proxy.store.of(proxy.environ("GET", "a/b"), "v1", "AUTH_other")
    assert proxy.names() == ["night"]
