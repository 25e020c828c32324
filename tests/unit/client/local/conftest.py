"""Projects of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import project as projects
from storlet_client.builder import template
from storlet_client.builder.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A new project, which keeps the lines that contain a text."""
    return projects.read(template.make(tmp_path / "fruit"))


def with_code(project: Project, body: str) -> Project:
    """``project`` with another body of its storlet's call."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    (project.folder / "src/fruit.py").write_text(
        "import os, signal, sys\n\n\nclass Fruit:\n"
        "    def __init__(self, logger):\n        self.logger = logger\n\n"
        f"    def __call__(self, in_files, out_files, params):\n{lines}\n"
    )
    return project
