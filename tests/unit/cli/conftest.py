"""Runs of ``storlet rules``, and files for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.cli import __main__ as command_line
from tests.unit.cli.commands import Answer, Run, Write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_(*words: str) -> Answer:
        try:
            code = command_line.main(["rules", *words])
        except SystemExit as ended:  # argparse
            code = int(str(ended.code))
        shown = capsys.readouterr()
        return Answer(code, shown.out, shown.err)

    return run_


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Files in the working directory, so that findings name them as they are given."""
    monkeypatch.chdir(tmp_path)

    def write_(name: str, content: str) -> str:
        (tmp_path / name).write_text(content, encoding="utf-8")
        return name

    return write_
