"""Fixtures of the tests of several storlets of the system library; property tests have few examples
by default."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.library.support import close_earlier, in_use, shared
from tests.support.property_tests import pytest_configure

__all__ = ["leftovers", "pytest_configure", "small_head"]


@pytest.fixture
def leftovers() -> Iterator[None]:
    """No run leaves a thread or a descriptor."""
    _close_kept_database()
    close_earlier()
    before = in_use()
    yield
    _close_kept_database()
    assert in_use() == before


def _close_kept_database() -> None:
    """End the database of ``std:sql``; a test of another storlet alone has not imported it."""
    if "kept_database" in sys.modules:
        shared("kept_database").close_idle()


@pytest.fixture
def small_head(monkeypatch: pytest.MonkeyPatch) -> int:
    """The types come from 4 KiB instead of 1 MiB."""
    size = 4096
    monkeypatch.setattr(shared("sql_input"), "HEAD_BYTES", size)
    return size
