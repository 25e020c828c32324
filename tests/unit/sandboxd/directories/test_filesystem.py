"""Directories, files and sockets: modes, owners, links, and atomic replacement."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.directories import filesystem
from storlet_middleware.sandboxd.errors import PathFault
from tests.unit.middleware.support import open_descriptors
from tests.unit.sandboxd.doubles import connect


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("before", [None, 0o700, 0o777])
def test_a_directory_gets_exactly_its_mode(home: Path, before: int | None) -> None:
    path, umask = home / "new", os.umask(0o077)
    try:
        if before is not None:
            path.mkdir()
            path.chmod(before)
        filesystem.make_directory(path, 0o750, os.getuid(), os.getgid())
    finally:
        os.umask(umask)
    assert mode(path) == 0o750


MAKERS: dict[str, Callable[[Path], object]] = {
    "make_directory": lambda path: filesystem.make_directory(path, 0o755, os.getuid()),
    "names": filesystem.names,
    "replace_text": lambda path: filesystem.replace_text(path / "file", "text", 0o600),
    "listening_socket": lambda path: filesystem.listening_socket(path / "sock", 0o600, None, 1),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_path_below_a_file_is_a_fault_that_names_it(home: Path, maker: str) -> None:
    (home / "file").touch()
    before = open_descriptors()
    with pytest.raises(PathFault, match=f"{home}/file/below.*: Not a directory"):
        MAKERS[maker](home / "file" / "below")
    assert open_descriptors() == before


@pytest.mark.parametrize("target", ["directory", "nothing"])
def test_a_link_is_never_followed(home: Path, target: str) -> None:
    (home / "directory").mkdir(0o700)
    (home / "link").symlink_to(home / target)
    with pytest.raises(PathFault):
        filesystem.make_directory(home / "link", 0o777, os.getuid())
    with pytest.raises(OSError, match="link"), filesystem.opened_directory(home / "link"):
        pass
    assert mode(home / "directory") == 0o700
    assert not (home / "nothing").exists()


def test_a_replaced_file_has_the_new_text_and_mode_and_no_leftover(home: Path) -> None:
    path = home / "note"
    for text, bits in (("first", 0o600), ("second, longer", 0o644), ("3", 0o600)):
        filesystem.replace_text(path, text, bits)
        assert (path.read_text(), mode(path)) == (text, bits)
    assert [entry.name for entry in home.iterdir()] == ["note"]


def test_an_open_file_keeps_its_text_while_it_is_replaced(home: Path) -> None:
    filesystem.replace_text(home / "note", "old", 0o600)
    with (home / "note").open(encoding="utf-8") as reader:
        filesystem.replace_text(home / "note", "new", 0o600)
        assert reader.read() == "old"


@pytest.mark.parametrize("maker", ["replace_text", "listening_socket"])
def test_a_file_that_cannot_get_its_name_leaves_nothing(home: Path, maker: str) -> None:
    for name in ("file", "sock"):
        (home / name / "below").mkdir(parents=True)
    before = open_descriptors()
    with pytest.raises(PathFault, match="directory"):
        MAKERS[maker](home)
    assert sorted(filesystem.names(home)) == ["file", "sock"]
    assert open_descriptors() == before


def test_a_socket_without_its_mode_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    before = open_descriptors()
    with pytest.raises(PathFault, match="not permitted"):
        filesystem.bound_socket(home / "sock", 0o600, None, 1)
    assert filesystem.names(home) == []
    assert open_descriptors() == before


def test_a_socket_replaces_a_stale_one_and_always_listens(home: Path) -> None:
    path = home / "sock"
    filesystem.listening_socket(path, 0o660, os.getgid(), 4).close()
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    with filesystem.listening_socket(path, 0o600, None, 4) as listener:
        connect(path)
        assert mode(path) == 0o600
        assert not listener.getblocking()
    assert [entry.name for entry in home.iterdir()] == ["sock"]


def test_temporary_names_are_hidden_and_never_repeat(home: Path) -> None:
    names = {filesystem.temporary_name(home / "file") for _ in range(100)}
    assert len(names) == 100
    assert all(name.parent == home and name.name.startswith(".") for name in names)


def test_names_and_removal_accept_a_missing_directory(home: Path) -> None:
    filesystem.remove_tree(home / "none")
    assert filesystem.names(home / "none") == []


def test_removal_leaves_the_target_of_a_link(home: Path) -> None:
    (home / "kept").mkdir()
    (home / "kept" / "file").touch()
    (home / "tree").mkdir()
    (home / "tree" / "link").symlink_to(home / "kept")
    filesystem.remove_tree(home / "tree")
    assert filesystem.names(home) == ["kept"]
    assert filesystem.names(home / "kept") == ["file"]
