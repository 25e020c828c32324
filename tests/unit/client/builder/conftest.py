"""A package index without a network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from storlet_client.builder import wheels
from tests.support.forking import Commands, commands_of


@pytest.fixture(scope="session")
def pip() -> Iterator[Commands]:
    """The import of pip takes most of the time of each of its processes."""
    with commands_of(Path(sys.prefix), "pip", "pip._internal.cli.main", os.environ) as made:
        yield made


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: Commands) -> Path:
    """A folder of wheels in place of the package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(wheels, "subprocess", SimpleNamespace(run=pip.completed))
    return folder
