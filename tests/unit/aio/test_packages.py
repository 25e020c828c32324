"""Missing packages are reported once, all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.aio import packages
from storlet_middleware.aio.packages import Need
from storlet_middleware.aio.progress import AioError

ABSENT = Need("frobnicator", ("frob", "libfrob"), lambda: False, "frobnicates")
THERE = Need("sh", ("dash",), lambda: True, "everything")


def test_nothing_missing_needs_neither_root_nor_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    packages.install([THERE], tmp_path / "log")


def test_a_user_other_than_root_sees_the_missing_packages_and_their_purpose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    with pytest.raises(AioError) as caught:
        packages.install([THERE, ABSENT], tmp_path / "log")
    text = str(caught.value)
    assert "frobnicator" in text
    assert "frobnicates" in text
    assert "apt-get install frob libfrob" in text
    assert "dash" not in text
