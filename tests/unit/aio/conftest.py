"""A cluster's home and cache below the test's own directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.aio import home as homes
from storlet_middleware.aio.home import Home


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def place(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The home of a new cluster; nothing of it is outside of the test's directory."""
    assert cache_dir.parent == tmp_path
    monkeypatch.setattr(homes, "RUN_ROOT", tmp_path / "run")
    made = homes.open_home({"STORLETS_HOME": str(tmp_path / "home"), "STORLETS_PORT": "0"})
    made.run.mkdir(parents=True)
    made.logs.mkdir()
    return made
