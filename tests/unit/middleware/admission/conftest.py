"""A node's directory with an empty table of admission."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_middleware.admission import shared_table


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    shared_table.create(tmp_path / shared_table.FILE_NAME, os.getgid())
    return tmp_path
