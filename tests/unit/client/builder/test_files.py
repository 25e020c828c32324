"""Files of a user: complete or absent, and the user's also under ``sudo``."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_client.builder import bundler, template, wheels
from storlet_client.builder.files import make_folder, replacement

ID = 54321
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(ID))
    monkeypatch.setenv("SUDO_GID", str(ID + 1))


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of the user; other users may not look into the folders of pytest."""
    place = Path(tempfile.mkdtemp())
    if not os.getuid():
        os.chown(place, ID, ID + 1)
    yield place
    shutil.rmtree(place)


def owners(folder: Path) -> set[tuple[int, int]]:
    facts = [path.lstat() for path in folder.rglob("*")]
    return {(each.st_uid, each.st_gid) for each in facts}


def write(place: Path, content: bytes = b"new") -> None:
    with replacement(place) as file:
        file.write(content)


@needs_root
@pytest.mark.parametrize("language", ["python", "java", "native"])
def test_a_new_project_in_a_folder_of_the_user_is_the_users(home: Path, language: str) -> None:
    made = template.make(home / "deep/er/fruit", language)
    assert made == home / "deep/er/fruit"
    assert (made / "storlet.toml").is_file()
    assert owners(home) == {(ID, ID + 1)}
    assert os.geteuid() == 0


@needs_root
def test_a_new_project_elsewhere_is_roots(home: Path) -> None:
    os.chown(home, 0, 0)
    template.make(home / "fruit")
    assert owners(home) == {(0, 0)}
    os.chown(home, ID + 5, ID + 5)
    template.make(home / "other")
    assert owners(home) == {(0, 0)}


@needs_root
def test_files_behind_a_link_to_a_folder_of_root_are_roots(home: Path, tmp_path: Path) -> None:
    (home / "link").symlink_to(tmp_path)
    template.make(home / "link" / "fruit")
    write(home / "link" / "out")
    assert owners(tmp_path) == {(0, 0)}


@needs_root
def test_a_bundle_in_a_folder_of_the_user_is_the_users(home: Path, tmp_path: Path) -> None:
    project = template.make(tmp_path / "fruit")  # root's
    bundle = bundler.build(project, home / "new/dist", wheels.Sandbox())
    assert bundle.is_file()
    assert owners(home) == {(ID, ID + 1)}
    assert owners(project) == {(0, 0)}


@needs_root
def test_an_output_belongs_to_the_owner_of_its_folder(home: Path, tmp_path: Path) -> None:
    for folder in (home, tmp_path):
        write(folder / "out")
        assert (folder / "out").read_bytes() == b"new"
    assert owners(home) == {(ID, ID + 1)}
    assert owners(tmp_path) == {(0, 0)}


@needs_root
def test_an_output_has_the_group_of_a_folder_that_gives_its_own(home: Path) -> None:
    os.chown(home, ID, ID + 7)
    home.chmod(0o2775)
    write(home / "out")
    assert owners(home) == {(ID, ID + 7)}


@needs_root
def test_a_link_is_replaced_and_its_target_stays_as_it_is(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "shadow"
    target.write_bytes(b"secret")
    (home / "out").symlink_to(target)
    write(home / "out")
    assert (home / "out").read_bytes() == b"new"
    assert not (home / "out").is_symlink()
    facts = target.stat()
    assert (target.read_bytes(), facts.st_uid, facts.st_gid) == (b"secret", 0, 0)


@needs_root
def test_an_earlier_file_keeps_its_owner_under_another_name(home: Path) -> None:
    (home / "out").write_bytes(b"old")
    (home / "same").hardlink_to(home / "out")
    write(home / "out")
    assert ((home / "same").read_bytes(), (home / "same").stat().st_uid) == (b"old", 0)
    assert (home / "out").stat().st_uid == ID


@needs_root
def test_a_folder_that_a_link_replaces_meanwhile_is_not_followed(
    home: Path, tmp_path: Path
) -> None:
    place = home / "inner/out"
    make_folder(place.parent)
    with replacement(place) as file:
        place.parent.rename(home / "moved")
        place.parent.symlink_to(tmp_path)
        file.write(b"new")
    assert list(tmp_path.iterdir()) == []
    assert (home / "moved/out").read_bytes() == b"new"


@needs_root
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SUDO_UID", "0"),
        ("SUDO_UID", "-1"),
        ("SUDO_UID", "4294967295"),
        ("SUDO_UID", "9" * 30),
        ("SUDO_UID", ""),
        ("SUDO_GID", "users"),
        ("SUDO_GID", "4294967295"),
    ],
)
def test_ids_that_are_not_valid_change_nothing(
    home: Path, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    if name == "SUDO_UID" and value.isdecimal():
        os.chown(home, min(int(value), ID + 9), 0)
    template.make(home / "fruit")
    write(home / "out")
    assert owners(home) == {(0, 0)}


@pytest.fixture(params=["without a name", "with a temporary name"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind of new files; not all file systems have those without a name."""
    if request.param == "with a temporary name":
        monkeypatch.delattr(os, "O_TMPFILE")
    return str(request.param)


@pytest.mark.usefixtures("kind")
def test_a_file_appears_when_it_is_complete(home: Path) -> None:
    place = home / "out"
    place.write_bytes(b"old")

    def fail() -> None:
        with replacement(place) as file:
            file.write(b"half")
            assert place.read_bytes() == b"old"
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert [each.name for each in home.iterdir()] == ["out"]
    place.unlink()
    before = os.umask(0o027)
    try:
        write(place)
    finally:
        os.umask(before)
    assert place.read_bytes() == b"new"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640


def test_a_killed_process_leaves_nothing(home: Path) -> None:
    code = (
        "import sys, pathlib; from storlet_client.builder.files import replacement\n"
        "with replacement(pathlib.Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); print(flush=True); sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code, str(home / "out")]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert list(home.iterdir()) == []


def test_a_file_system_whose_files_all_have_names_gets_such_ones(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: str, flags: int, *more: Any, **options: Any) -> int:
        if path == ".":
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    write(home / "out")
    assert (home / "out").read_bytes() == b"new"
    assert [each.name for each in home.iterdir()] == ["out"]


@pytest.mark.usefixtures("kind")
def test_an_error_names_the_file_and_not_the_temporary_one(home: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write(home / "none/out")
    assert caught.value.filename == str(home / "none/out")
    (home / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as found:
        write(home / "folder")
    assert found.value.filename == str(home / "folder")
    with pytest.raises(OSError, match="File name too long") as long:
        write(home / ("x" * 256))
    assert long.value.filename == str(home / ("x" * 256))
    assert [each.name for each in home.iterdir()] == ["folder"]
    write(home / ("x" * 255))

    def fill() -> None:
        with replacement(home / "full"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as full:
        fill()
    assert full.value.filename == str(home / "full")


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_has_the_permissions_of_the_file_that_it_replaces(home: Path, mode: int) -> None:
    place = home / "private"
    place.write_bytes(b"old")
    place.chmod(mode)
    write(place)
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"new", mode)
