"""The storlets of the system library: each folder has a valid manifest, a README and cases, and the
cases pass as with ``storlet test``.

They run in this process: in one of its own, each would import the packages of the library again.
``tests/unit/client/local/test_cases.py`` tests the process of a case.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from storlet_client.builder import project
from storlet_client.bundle import manifest
from storlet_client.local import cases, run
from storlet_client.local.author import offer

ROOT = Path(__file__).resolve().parents[2] / "storlets" / "std"
SHARED = ROOT / "shared"
FOLDERS = sorted(path for path in ROOT.iterdir() if path.is_dir() and path != SHARED)


class InThisProcess:
    """Runs the cases of one project here; the outputs are files in ``folder``."""

    def __init__(self, subject: project.Project, folder: Path) -> None:
        self._subject = subject
        self._folder = folder

    def run(self, case: Mapping[str, Any]) -> cases.Ran:
        subject, output = self._subject, self._folder / "output"
        further = cases._further_files(subject.document, case, self._folder)
        for path in (output, *further):
            path.unlink(missing_ok=True)
        inputs = [run.Input(subject.folder / file) for file in manifest.inputs_of(case)]
        opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        parameters, secrets = cases._parameters(case), manifest.secrets_of(case)
        try:
            outcome = run.run(subject, inputs, opened, parameters, further, secrets)
        except project.ProjectError as error:
            outcome = run.Outcome("bad_request", "; ".join(error.faults))
        return cases.Ran(outcome, cases._contents(case, cases._content(output), further))


@pytest.fixture
def _new_modules() -> Iterator[None]:
    """The modules of the storlets are imported again: other tests have those that they imported
    with the interface of sandboxes, and that interface itself.
    """
    theirs = {
        name: module
        for name, module in sys.modules.items()
        if name in offer.NAMES
        or (getattr(module, "__file__", None) or "").startswith(f"{ROOT}{os.sep}")
    }
    for name in theirs:
        del sys.modules[name]
    yield
    for name in offer.NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(theirs)


@pytest.fixture(scope="module")
def _codes() -> Iterator[None]:
    """Each module is compiled once for all its links: each case imports it again."""
    codes: dict[bytes, Any] = {}
    compiled = SourceFileLoader.source_to_code

    def code_of(self: SourceFileLoader, data: bytes, path: str) -> Any:
        if data not in codes:
            codes[data] = compiled(self, data, path)
        return codes[data]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceFileLoader, "source_to_code", code_of)
        yield


@pytest.mark.usefixtures("_codes", "_new_modules")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_its_cases_pass(folder: Path, tmp_path: Path) -> None:
    found = project.read(folder)
    assert found.document["name"] == folder.name
    assert found.document["summary"]
    assert all(row.get("help") for row in found.document.get("parameters", {}).values())
    assert (folder / "README.rst").read_text().startswith(f"std:{folder.name}\n")
    runner = InThisProcess(found, tmp_path)
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
