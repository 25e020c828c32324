"""The comparison of coverage with the floors, and the selection of checkers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storlet_middleware.aio import checks
from storlet_middleware.aio.progress import AioError
from tests.coverage import floors

ROOT = Path(__file__).resolve().parents[3]
REPORT = {
    "files": {
        "rules/a.py": {"summary": {"covered_lines": 8, "num_statements": 10}},
        "rules/b.py": {"summary": {"covered_lines": 10, "num_statements": 10}},
        "rules/check/c.py": {"summary": {"covered_lines": 0, "num_statements": 20}},
    }
}


def test_a_package_is_counted_without_its_subpackages() -> None:
    found = floors.by_package(REPORT)
    assert {name: covered.percent for name, covered in found.items()} == {
        "rules": 90.0,
        "rules/check": 0.0,
        "total": 45.0,
    }


def test_packages_below_their_floor_are_named() -> None:
    found = floors.by_package(REPORT)
    assert floors.faults(found, {"rules": 90, "rules/check": 0, "total": 45}) == []
    assert floors.faults(found, {"rules": 91, "rules/check": 0, "total": 46}) == [
        "rules: 90.0 % of its statements are covered, less than 91 %",
        "total: 45.0 % of its statements are covered, less than 46 %",
    ]


def test_each_package_with_code_has_a_floor() -> None:
    found = floors.by_package(REPORT)
    assert floors.faults(found, {"rules": 1, "total": 1, "gone": 1}) == [
        "rules/check: add its floor to tests/coverage/floors.py",
        "gone: has a floor, but no code",
    ]


def test_a_checker_that_does_not_exist_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checks.packages, "install", lambda *_: None)
    monkeypatch.setattr(checks.venv, "tools", lambda _: tmp_path)
    with pytest.raises(AioError, match="no checker mipy; there are ruff-check, ruff-format, mypy"):
        checks.check(only=["mipy"])


@pytest.mark.parametrize(
    ("only", "skip", "run"),
    [
        (["mypy", "docs"], [], ["mypy", "docs"]),
        (["mypy", "docs"], ["docs"], ["mypy"]),
        ([], ["mypy", "coverage"], None),
    ],
)
def test_checkers_can_be_selected(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    only: list[str],
    skip: list[str],
    run: list[str] | None,
) -> None:
    done: list[str] = []
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checks.packages, "install", lambda *_: None)
    monkeypatch.setattr(checks.venv, "tools", lambda _: tmp_path)
    monkeypatch.setattr(checks, "_run", lambda *_: (None, 0.0))
    monkeypatch.setattr(checks, "_passes", lambda name, *_: done.append(name) or True)
    assert checks.check(only, skip) == 0
    every = [name for name, _ in checks.commands(tmp_path)]
    assert done == ([name for name in every if name not in skip] if run is None else run)
    assert every[-1] == "coverage"


def test_pre_commit_has_a_hook_for_each_checker() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"entry: python3 -m storlet_middleware.aio check (\S+)\n", text)
    assert entries == [name for name, _ in checks.commands(ROOT)]
