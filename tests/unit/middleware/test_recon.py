"""recon.py: the file for monitoring."""

from __future__ import annotations

import json
from pathlib import Path

from storlet_middleware.recon import FILE_NAME, ReconCache
from tests.unit.middleware.logger import Logger


def test_each_key_has_the_value_that_was_written_last(tmp_path: Path) -> None:
    recon = ReconCache(str(tmp_path), Logger())
    recon.write({"a": {"x": 1}, "b": {"y": 1}})
    recon.write({"a": {"z": 2}})
    file = tmp_path / FILE_NAME
    assert json.loads(file.read_text()) == {"a": {"z": 2}, "b": {"y": 1}}
    recon.write({"a": {}})
    assert json.loads(file.read_text()) == {"b": {"y": 1}}


def test_without_the_directory_nothing_is_written_or_logged(tmp_path: Path) -> None:
    logger = Logger()
    ReconCache(str(tmp_path / "missing"), logger).write({"a": {"x": 1}})
    assert logger.text == ""
    assert list(tmp_path.iterdir()) == []
