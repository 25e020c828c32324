"""The private folders of worker groups."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from storlet_daemon import homes

VERSIONS = ("1" * 64, "2" * 64)


@pytest.fixture
def made(tmp_path: Path) -> list[Path]:
    """The folders of two groups, each with a file."""
    folders = [Path(homes.path_of(str(tmp_path), version)) for version in VERSIONS]
    for folder in folders:
        folder.mkdir()
        (folder / "file").touch()
    return folders


def test_a_process_moves_into_its_folder_with_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "TMPDIR", "PYTHONNOUSERSITE"):
        monkeypatch.setenv(name, "before")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir("/")
    home = tmp_path / "home"
    for _ in range(2):
        homes.move_in(str(home))
        assert (Path.cwd(), Path.home(), tempfile.gettempdir()) == (home, home, str(home))
    assert home.stat().st_mode & 0o777 == 0o700
    assert os.environ["PYTHONNOUSERSITE"] == "1"


def test_a_link_or_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(OSError):  # noqa: PT011  either of two kinds
            homes.move_in(str(tmp_path / name))


def test_folders_of_groups_that_left_are_found(tmp_path: Path, made: list[Path]) -> None:
    (tmp_path / ".cleared-x").mkdir()
    found = homes.left_behind(str(tmp_path), {VERSIONS[0]})
    assert sorted(found) == [str(tmp_path / ".cleared-x"), str(made[1])]
    assert homes.left_behind(str(tmp_path / "missing"), set()) == []


def test_the_contents_are_those_of_all_folders(tmp_path: Path, made: list[Path]) -> None:
    (tmp_path / "link").symlink_to("/etc")
    found = homes.contents(str(tmp_path))
    assert sorted(found) == sorted(str(folder / "file") for folder in made)
