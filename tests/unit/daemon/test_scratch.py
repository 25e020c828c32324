"""The scratch space is emptied of any leftovers of storlets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_daemon import scratch


def clear(place: Path) -> None:
    pid = scratch.begin_to_remove(scratch.contents(str(place)))
    assert os.waitpid(pid, 0)[1] == 0


def test_all_contents_are_removed_and_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "-rf").write_text("x")
    (tmp_path / "line\nbreak").mkdir()
    (tmp_path / "link").symlink_to("/")
    deep = tmp_path / "deep"
    for _ in range(50):
        deep.mkdir()
        deep /= "deep"
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc").is_dir()


def test_folders_without_permissions_are_removed_too(tmp_path: Path) -> None:
    if os.getuid() == 0:
        os.chown(tmp_path, 54321, 54321)
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(tmp_path)
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(54321, 54321, 54321)
                os.setresuid(54321, 54321, 54321)
            Path("closed/inner").mkdir(parents=True)
            Path("closed/inner/file").write_text("x")
            Path("closed/inner").chmod(0)
            Path("closed").chmod(0)
            child = scratch.begin_to_remove(scratch.contents("."))
            os._exit(0 if os.waitpid(child, 0)[1] == 0 and not any(Path().iterdir()) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


def test_files_created_meanwhile_stay(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    pid = scratch.begin_to_remove(scratch.contents(str(tmp_path)))
    (tmp_path / "old").write_text("new")
    os.waitpid(pid, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_the_scratch_is_emptied_on_a_full_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").write_text("x")
    make = os.mkdir
    tries: list[int] = []

    def full_at_first(path: str, mode: int) -> None:
        tries.append(len(list(tmp_path.iterdir())))
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", full_at_first)
    clear(tmp_path)
    assert tries == [2, 1]
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_is_emptied_of_folders_that_leave_room_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two/deep", "three"):
        (tmp_path / name).mkdir(parents=True)

    def full(_path: str, _mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_being_removed_are_no_contents(tmp_path: Path) -> None:
    assert not scratch.has_contents(str(tmp_path))
    (tmp_path / ".cleared-x").mkdir()
    assert not scratch.has_contents(str(tmp_path))
    (tmp_path / "left").touch()
    assert scratch.has_contents(str(tmp_path))
    assert not scratch.has_contents(str(tmp_path / "gone"))


def test_entries_of_several_folders_are_removed_and_others_stay(tmp_path: Path) -> None:
    for name in ("a/gone", "a/kept", "b/gone"):
        (tmp_path / name).mkdir(parents=True)
    pid = scratch.begin_to_remove([str(tmp_path / "a/gone"), str(tmp_path / "b/gone")])
    assert os.waitpid(pid, 0)[1] == 0
    assert sorted(map(str, tmp_path.rglob("*"))) == [
        str(tmp_path / name) for name in ("a", "a/kept", "b")
    ]
