"""Fixtures of the tests of several storlets of the system library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.library.support import close_earlier, in_use, shared


@pytest.fixture
def leftovers() -> Iterator[None]:
    """No run leaves a thread or a descriptor."""
    shared("kept_database").close_idle()
    close_earlier()
    before = in_use()
    yield
    shared("kept_database").close_idle()
    assert in_use() == before


@pytest.fixture
def small_head(monkeypatch: pytest.MonkeyPatch) -> int:
    """The types come from 4 KiB instead of 1 MiB."""
    size = 4096
    monkeypatch.setattr(shared("sql_input"), "HEAD_BYTES", size)
    return size
