"""Imports of test modules: each worker has a share, and every module is in one of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import imports

FAULTS = {
    "test_broken.py": "raise OSError('no such thing')",
    "test_skipped.py": "import pytest\npytest.skip('not here', allow_module_level=True)",
    "test_wrong.py": "def test(:",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose folder ``shares_of_tests`` has eight modules of growing size."""
    monkeypatch.setattr(imports, "CHECKOUT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "shares_of_tests"
    folder.mkdir()
    for number in range(8):
        (folder / f"test_{number}.py").write_text("#" * 1000 * number + "\nSTATE = []\n")
    return folder


def config(worker: int | None, workers: int, ignored: str = "", place: Path | None = None) -> Any:
    """The configuration of a session with the folder as its argument, started in ``place``."""

    def ignore(collection_path: Path, config: Any) -> bool | None:
        return True if collection_path.name == ignored else None

    hook = SimpleNamespace(pytest_ignore_collect=ignore)
    started = SimpleNamespace(dir=place or imports.CHECKOUT)
    found = SimpleNamespace(args=["shares_of_tests"], hook=hook, invocation_params=started)
    if worker is not None:
        found.workerinput = {"workerid": f"gw{worker}", "workercount": workers}
    return found


def imported() -> set[str]:
    return {name for name in sys.modules if name.startswith("shares_of_tests.")}


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    for name in imported() | {"shares_of_tests"}:
        sys.modules.pop(name, None)


def test_the_shares_are_all_modules_once_and_of_similar_size(checkout: Path) -> None:
    found = imports.modules(config(0, 2))
    shares = [imports.share(found, number, 2) for number in range(2)]
    assert sorted(shares[0] + shares[1]) == sorted(checkout.glob("test_*.py"))
    sizes = [sum(module.stat().st_size for module in share) for share in shares]
    assert abs(sizes[0] - sizes[1]) <= 4000 < sum(sizes) / 6


def test_a_worker_imports_its_share(checkout: Path) -> None:
    imports.import_share(config(0, 2))
    assert imported() == {f"shares_of_tests.test_{number}" for number in (7, 5, 3, 1)}


def test_a_session_without_workers_imports_nothing(checkout: Path) -> None:
    imports.import_share(config(None, 0))
    assert imported() == set()


def test_modules_that_the_collection_ignores_are_not_imported(checkout: Path) -> None:
    imports.import_share(config(0, 1, ignored="test_4.py"))
    assert imported() == {f"shares_of_tests.test_{number}" for number in range(8) if number != 4}


def test_modules_outside_of_the_checkout_are_not_imported(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("elsewhere")
    folder = place / checkout.name
    folder.mkdir()
    (folder / "test_0.py").write_text("")
    imports.import_share(config(0, 1, place=place))
    assert imported() == set()


@pytest.mark.parametrize("name", FAULTS)
def test_a_module_with_a_fault_is_left_to_the_collection(checkout: Path, name: str) -> None:
    (checkout / name).write_text(FAULTS[name])
    imports.import_share(config(0, 1))
    assert imported() == {f"shares_of_tests.test_{number}" for number in range(8)}
