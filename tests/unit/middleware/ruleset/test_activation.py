"""Rules are brought into force and removed in a crash-safe order, under a lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.errors import BackendFailed, RulesConflict
from storlet_middleware.ruleset.activation import Activation
from storlet_middleware.ruleset.pointer import Pointers
from storlet_middleware.ruleset.versions import RULES, Versions
from storlet_middleware.wsgi.swift_paths import AccountPath
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.rules_account import (
    MANDATORY,
    ORDINARY,
    AccountSwift,
    InfoCache,
    RulesProxy,
)
from tests.unit.middleware.support import ACCOUNT

Make = Callable[..., Activation]


@pytest.fixture
def swift() -> AccountSwift:
    return AccountSwift()


@pytest.fixture
def make(swift: AccountSwift, short_dir: Path) -> Make:
    cache = InfoCache()
    proxy = RulesProxy(swift, short_dir, cache)

    def activation() -> Activation:
        environ: dict[str, Any] = proxy.environ("PUT", f"storlet_rules/{RULES}")
        versions = Versions(swift, "storlet_rules")
        return Activation(Pointers(swift), versions, Logger(), environ, AccountPath("v1", ACCOUNT))

    return activation


def test_rules_are_stored_twice_and_pointed_to(swift: AccountSwift, make: Make) -> None:
    pointer, headers = make().activate(MANDATORY, {}, is_mandatory=True)
    assert swift.pointer == pointer.text
    assert swift.stored == {RULES: MANDATORY, pointer.name: MANDATORY}
    assert "Etag" in headers


def test_a_pointer_that_cannot_be_written_keeps_the_old_rules(
    swift: AccountSwift, make: Make
) -> None:
    before, _ = make().activate(ORDINARY, {}, is_mandatory=False)
    swift.post_statuses = [503]
    with pytest.raises(BackendFailed, match="the previous rules stay in force"):
        make().activate(MANDATORY, {}, is_mandatory=True)
    assert swift.stored[RULES] == ORDINARY
    found = make().in_force()
    assert found is not None
    assert (found.version, found.name) == (before.version, before.name)


def test_removed_rules_leave_a_pointer_without_a_version(swift: AccountSwift, make: Make) -> None:
    before, _ = make().activate(ORDINARY, {}, is_mandatory=False)
    activation = make()
    with activation.locked():
        activation.deactivate(before)
    found = make().in_force()
    assert found is not None
    assert (found.version, found.name) == ("", "")
    assert found.time > before.time


def test_a_second_change_conflicts_until_the_first_has_ended(make: Make) -> None:
    with make().locked(), pytest.raises(RulesConflict), make().locked():
        pass
    with make().locked():
        pass
