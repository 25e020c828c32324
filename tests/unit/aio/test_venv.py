"""Layers of Python environments: which one gets which packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.aio import venv
from storlet_middleware.aio.progress import AioError


@pytest.mark.parametrize(
    ("make", "kind", "requirements"),
    [
        (venv.tools, "tools", "requirements-test.txt"),
        (venv.bench, "bench", "requirements-bench.txt"),
    ],
)
def test_a_layer_has_the_packages_of_one_file_on_top_of_swifts(
    make: Callable[[Path], Path],
    kind: str,
    requirements: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    below, commands = tmp_path / "deps-0", []
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(venv, "deps", lambda _log: below)
    monkeypatch.setattr(
        venv, "_new_layer", lambda place, under, _log: commands.append((place, under))
    )
    monkeypatch.setattr(
        venv, "run", lambda words, _log, **_: commands.append([str(word) for word in words])
    )
    place = make(tmp_path / "log")
    assert place.name.startswith(f"{kind}-")
    made, installed = commands
    assert made == (place, below)
    assert "--no-deps" in installed
    assert installed[-1] == str(venv.CHECKOUT / requirements)
    assert make(tmp_path / "log") == place
    assert len(commands) == 2


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of pip, which are not run."""
    commands: list[list[str]] = []
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(venv, "deps", lambda _log: tmp_path / "deps-0")
    monkeypatch.setattr(
        venv, "run", lambda words, _log, **_: commands.append([str(word) for word in words])
    )
    return commands


def test_packages_of_the_larger_image_are_wheels_with_known_hashes(
    fetched: list[list[str]], tmp_path: Path
) -> None:
    place = venv.data(tmp_path / "log")
    assert place == venv.data(tmp_path / "log")
    (command,) = fetched
    # Without isolation a build of a source package takes no tool that is not pinned.
    assert "--no-build-isolation" in command
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps", str(place)} <= set(command)
    assert command[-1] == str(venv.DATA_REQUIREMENTS)


@pytest.mark.usefixtures("fetched")
def test_packages_that_cannot_be_fetched_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise AioError("no network")

    monkeypatch.setattr(venv, "run", run)
    assert venv.data(tmp_path / "log") is None


def test_the_larger_image_has_the_version_that_is_tested() -> None:
    pinned = re.findall(r"(?m)^(\S+==\S+)", venv.DATA_REQUIREMENTS.read_text())
    files = [venv.CHECKOUT / f"requirements{kind}.txt" for kind in ("", "-test")]
    tested = [line for file in files for line in file.read_text().splitlines()]
    assert pinned
    assert [each for each in pinned if each not in tested] == []
