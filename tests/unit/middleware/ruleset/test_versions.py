"""The objects that hold an account's rules."""

from __future__ import annotations

import pytest

from rules.text import MAX_BYTES
from storlet_middleware.errors import BackendFailed
from storlet_middleware.ruleset.pointer import Pointer
from storlet_middleware.ruleset.versions import Versions, is_ours
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.rules_account import MANDATORY, AccountSwift, RulesProxy
from tests.unit.middleware.support import ACCOUNT


def test_rules_are_read_from_either_of_their_two_copies(
    proxy: RulesProxy, swift: AccountSwift
) -> None:
    proxy.upload(MANDATORY)
    del swift.containers["storlet_rules"].objects[swift.pointer.split()[-1]]  # type: ignore[union-attr]
    assert proxy.names() == ["closed"]


ACCOUNT_PATH = AccountPath("v1", ACCOUNT)


@pytest.fixture
def versions(swift: AccountSwift) -> Versions:
    return Versions(swift, "storlet_rules")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rules.yaml", True),
        ("versions/20260314T091500.000000Z-0123456789ab.yaml", True),
        ("versions", False),
        ("notes.txt", False),
        ("old/rules.yaml", False),
    ],
)
def test_names_of_the_objects_that_hold_rules(name: str, *, expected: bool) -> None:
    assert is_ours(name) is expected


def test_an_object_is_written_read_and_removed(
    versions: Versions, proxy: RulesProxy, swift: AccountSwift
) -> None:
    environ = proxy.environ("PUT", "a/b")
    assert versions.write(environ, ACCOUNT_PATH, "rules.yaml", MANDATORY, {}).status_int == 201
    assert versions.read(environ, ACCOUNT_PATH, "rules.yaml") == (MANDATORY, 200)
    assert versions.remove(environ, ACCOUNT_PATH, "rules.yaml").status_int == 204
    assert versions.read(environ, ACCOUNT_PATH, "rules.yaml") == (None, 404)
    assert swift.unclosed() == 0


def test_only_the_mutable_object_is_read_from_its_newest_replica(
    versions: Versions, proxy: RulesProxy, swift: AccountSwift
) -> None:
    for name in ("rules.yaml", "versions/a.yaml"):
        versions.read(proxy.environ("GET", "a/b"), ACCOUNT_PATH, name)
    assert [seen.headers.get("X-Newest") for seen in swift.requests("GET")] == ["true", None]


def test_a_text_that_is_too_long_is_not_read(
    versions: Versions, proxy: RulesProxy, swift: AccountSwift
) -> None:
    swift.put("storlet_rules", "rules.yaml", b"x" * (MAX_BYTES + 1))
    with pytest.raises(BackendFailed, match=f"rules.yaml has {MAX_BYTES + 1} bytes"):
        versions.read(proxy.environ("GET", "a/b"), ACCOUNT_PATH, "rules.yaml")
    assert swift.unclosed() == 0


def test_two_wrong_copies_are_both_named(
    versions: Versions, proxy: RulesProxy, swift: AccountSwift
) -> None:
    pointer = Pointer.to("f" * 64, is_mandatory=True, after=None)
    swift.put("storlet_rules", "rules.yaml", MANDATORY)
    with pytest.raises(BackendFailed) as caught:
        versions.text_of(proxy.environ("GET", "a/b"), ACCOUNT_PATH, pointer)
    assert str(caught.value) == (
        f"{pointer.name}: Swift returned 404; rules.yaml: is not the version in force"
    )
