"""``run`` and ``test``."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import template
from tests.unit.client.conftest import Command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return template.make(tmp_path / "fruit")


def test_the_output_of_a_run_is_stored(command: Command, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    words = ("run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-o", str(target))
    result = command(*words, "-p", "text=apple", "-m", "colour=red")
    assert result.code == 0
    assert target.read_bytes() == b"one apple\nthree apples\n"
    assert result.err.splitlines()[0] == "fruit.Fruit DEBUG: kept 2 lines"
    assert "metadata colour: red" in result.err


def test_a_failed_run_leaves_no_output(command: Command, folder: Path, tmp_path: Path) -> None:
    source = folder / "src/fruit.py"
    source.write_text(source.read_text().replace("kept = 0", "raise ValueError('on purpose')"))
    target = tmp_path / "out"
    result = command(
        "run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-o", str(target)
    )
    assert result.code == 4
    assert "storlet: storlet.failed: ValueError: on purpose" in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fruit"]


def test_a_run_with_a_wrong_parameter_is_refused(command: Command, folder: Path) -> None:
    result = command(
        "run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-p", "txt=apple"
    )
    assert result.code == 3
    assert "did you mean text?" in result.err


def test_the_cases_of_a_project_are_run(command: Command, folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    result = command("test", str(folder), "-f", "csv", "--junit", str(report))
    assert (result.code, result.out.splitlines()[1].split(",")[:2]) == (
        0,
        ["lines with apples", "ok"],
    )
    assert 'failures="0"' in report.read_text()
    (folder / "expected.txt").write_text("pears\n")
    failed = command("test", str(folder))
    assert failed.code == 1
    assert "-pears" in failed.err
    assert command("test", str(folder), "-k", "nothing").code == 3


def test_a_run_in_a_sandbox_is_refused(command: Command, folder: Path) -> None:
    result = command("run", str(folder), str(folder / "sample.txt"))
    assert result.code == 3
    assert "add --no-sandbox" in result.err
