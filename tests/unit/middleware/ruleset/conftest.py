"""An account with rules, and a proxy that serves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.ruleset import pointer
from tests.unit.middleware.rules_account import AccountSwift, InfoCache, RulesProxy


@pytest.fixture
def swift() -> AccountSwift:
    return AccountSwift()


@pytest.fixture
def proxy(swift: AccountSwift, tmp_path: Path) -> RulesProxy:
    return RulesProxy(swift, tmp_path, InfoCache())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer, "_STALE_CHECKS_SECONDS", (0.0, 0.01))
