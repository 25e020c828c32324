"""The versions of Python and Swift that ``make matrix`` combines, and how it runs them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.aio import matrix
from storlet_middleware.aio.progress import AioError

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_each_python_and_each_swift_is_combined_once() -> None:
    found = [(each.python, each.swift) for each in matrix.combinations("2.36.4")]
    assert found == [
        ("3.11", "2.36.4"),
        ("3.12", "2.36.4"),
        ("3.13", "2.36.4"),
        ("3.11", "2.35.5"),
        ("3.11", "2.37.4"),
        ("3.11", "2.38.3"),
    ]


def test_a_missing_python_fails_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path))
    monkeypatch.setattr(matrix, "_interpreters", lambda _given: iter(()))
    assert matrix.matrix([]) == len(list(matrix.combinations(_pinned())))
    assert "no python3.12" in capsys.readouterr().out


@pytest.fixture
def _given_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the interpreters on ``PATH``, each of which would be started several times."""
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.mark.usefixtures("_given_only")
def test_a_program_that_is_no_interpreter_is_refused() -> None:
    with pytest.raises(AioError, match="/bin/false is no Python interpreter"):
        matrix.matrix(["/bin/false"])


def test_results_are_those_of_pytest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # The import of its plugins takes most of the time of a session of pytest.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_it.py").write_text(
        "import logging\n"
        "def test_a(): pass\n"
        "def test_b(): logging.error('a captured log'); assert False\n"
    )
    monkeypatch.setattr(matrix, "TESTS", ("-q", f"{tmp_path}/test_it.py"))
    assert matrix._test(Path(sys.prefix)).startswith("FAILED: 1 failed, 1 passed")
    shown = capsys.readouterr().out
    assert "test_b" in shown
    assert "a captured log" not in shown
    monkeypatch.setattr(matrix, "TESTS", ("-q", f"{tmp_path}/test_it.py::test_a"))
    assert matrix._test(Path(sys.prefix)).startswith("ok: 1 passed")


@pytest.mark.usefixtures("_given_only")
def test_an_interpreter_that_only_root_can_run_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrix, "needs_mount", lambda _path: True)
    with pytest.raises(AioError, match="in a folder that all users can read"):
        matrix.matrix([sys.executable])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path that all users can read, which pytest's own ones are not."""
    with tempfile.TemporaryDirectory(prefix="st-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("part", ["libpython3.so", "os.py"])
def test_a_part_of_an_interpreter_that_only_root_can_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    places = [folder / name for name in ("libpython3.so", "os.py", "python3")]
    for place in places:
        place.touch(mode=0o644)
    monkeypatch.setattr(matrix, "_runs", lambda _path: True)
    monkeypatch.setattr(matrix, "PYTHONS", ())
    answers = map(str, places * 3)
    monkeypatch.setattr(matrix, "_ask", lambda *_: next(answers))
    assert matrix._private_part(places[-1]) is None
    (folder / part).chmod(0o600)
    with pytest.raises(AioError, match=f"who cannot read {folder / part}"):
        list(matrix._interpreters([str(places[-1])]))


def test_the_library_of_an_interpreter_is_found() -> None:
    assert matrix._private_part(Path("/usr/bin/python3")) is None


def test_the_version_of_an_interpreter_is_its_own() -> None:
    assert matrix._version(Path(sys.executable)) == OWN


def _pinned() -> str:
    text = (matrix.CHECKOUT / "requirements.txt").read_text(encoding="utf-8")
    return matrix._PIN.findall(text)[0]
