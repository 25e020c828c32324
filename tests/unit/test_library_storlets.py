"""The storlets of the system library: each folder has a valid manifest, a README and cases, and the
cases pass as with ``storlet test``."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import project
from storlet_client.local import cases

ROOT = Path(__file__).resolve().parents[2] / "storlets" / "std"
FOLDERS = sorted(path for path in ROOT.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_its_cases_pass(folder: Path) -> None:
    found = project.read(folder)
    assert found.document["name"] == folder.name
    assert found.document["summary"]
    assert all(row.get("help") for row in found.document.get("parameters", {}).values())
    assert (folder / "README.rst").read_text().startswith(f"std:{folder.name}\n")
    runner = cases.InProcesses(found)
    assert [each for each in cases.results(found, "", runner) if each.faults] == []


def test_the_link_of_the_package_leads_there() -> None:
    link = ROOT.parents[1] / "storlet_middleware" / "std"
    assert link.is_symlink()
    assert link.resolve() == ROOT
