"""The storlets of the system library: each folder has a valid manifest, a README and cases, and the
cases pass as with ``storlet test``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from storlet_client.builder import project
from storlet_client.local import cases

ROOT = Path(__file__).resolve().parents[2] / "storlets" / "std"
SHARED = ROOT / "shared"
FOLDERS = sorted(path for path in ROOT.iterdir() if path.is_dir() and path != SHARED)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_its_cases_pass(folder: Path) -> None:
    found = project.read(folder)
    assert found.document["name"] == folder.name
    assert found.document["summary"]
    assert all(row.get("help") for row in found.document.get("parameters", {}).values())
    assert (folder / "README.rst").read_text().startswith(f"std:{folder.name}\n")
    runner = cases.InProcesses(found)
    assert [each for each in cases.results(found, "", runner) if each.faults] == []


def test_several_storlets_share_each_module_of_the_folder_for_that() -> None:
    links = [path for path in ROOT.glob("*/src/*") if path.is_symlink()]
    assert {path.resolve().parent for path in links} == {SHARED}
    uses = Counter(path.resolve() for path in links)
    assert [path for path in SHARED.glob("*.py") if uses[path] < 2] == []
    # Modules of one name would be one module in the process of the unit tests.
    own = Counter(path.name for path in ROOT.glob("*/src/*.py") if not path.is_symlink())
    assert [name for name in own if own[name] > 1 or (SHARED / name).exists()] == []


def test_the_link_of_the_package_leads_there() -> None:
    link = ROOT.parents[1] / "storlet_middleware" / "std"
    assert link.is_symlink()
    assert link.resolve() == ROOT
