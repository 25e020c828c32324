"""A folder for a storlet's code, and the import state as it was before the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path, modules, bytecode = list(sys.path), set(sys.modules), sys.dont_write_bytecode
    yield tmp_path
    sys.path[:] = path
    sys.dont_write_bytecode = bytecode
    for name in set(sys.modules) - modules:
        del sys.modules[name]
