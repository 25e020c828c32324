"""The directories of accounts' code: owners, links, versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_middleware import code_folders
from storlet_middleware.sandboxd.directories import filesystem
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.errors import PathFault


def test_a_link_instead_of_a_code_directory_is_refused(paths: NodePaths) -> None:
    paths.code.path_of("AUTH_a").symlink_to("/etc")
    before = Path("/etc").stat()
    with pytest.raises(PathFault):
        paths.code.make("AUTH_a", os.getuid())
    assert (Path("/etc").stat().st_uid, Path("/etc").stat().st_mode) == (
        before.st_uid,
        before.st_mode,
    )


@pytest.mark.skipif(
    os.getuid() != 0, reason="gives a directory to another user, which only root may"
)
def test_the_code_directory_belongs_to_the_requesting_user(paths: NodePaths) -> None:
    path = paths.code.make("AUTH_a", 4321)
    assert path.stat().st_uid == 4321
    paths.code.make("AUTH_a", 0)
    assert path.stat().st_uid == 4321, "a tool that runs as root must not take it away from Swift"


def test_a_version_must_be_a_real_directory(paths: NodePaths) -> None:
    code_dir = paths.code.make("AUTH_a", os.getuid())
    (code_dir / ("a" * 64)).mkdir()
    (code_dir / ("b" * 64)).symlink_to("a" * 64)
    (code_dir / ("c" * 64)).touch()
    assert [paths.code.has_version("AUTH_a", digit * 64) for digit in "abcd"] == [
        True,
        False,
        False,
        False,
    ]


def _versions(paths: NodePaths) -> dict[str, Path]:
    """Code of an account: one version that is on the disk, one that is not, one partial fetch."""
    code_dir = paths.code.make("AUTH_a", os.getuid())
    made = {"disk": "a" * 64, "memory": "b" * 64, "partial": f"{code_folders.TEMPORARY}1"}
    found = {key: code_dir / name for key, name in made.items()}
    for path in found.values():
        path.mkdir(code_folders.IN_MEMORY)
    found["disk"].chmod(code_folders.ON_DISK)
    return found


def test_after_a_start_of_the_node_only_code_on_the_disk_is_left(paths: NodePaths) -> None:
    paths.code.forget_unsynced("first")
    versions = _versions(paths)
    assert paths.code.forget_unsynced("second") == 1
    assert {key: path.exists() for key, path in versions.items()} == {
        "disk": True,
        "memory": False,
        "partial": True,
    }
    left = [each.name for each in versions["disk"].parent.iterdir()]
    assert not paths.code.has_version("AUTH_a", "b" * 64)
    assert len([name for name in left if name.startswith(code_folders.TEMPORARY)]) == 2


def test_a_start_of_sandboxd_alone_leaves_all_code(paths: NodePaths) -> None:
    paths.code.forget_unsynced("first")
    versions = _versions(paths)
    assert paths.code.forget_unsynced("first") == 0
    assert all(path.exists() for path in versions.values())


def test_code_of_a_release_without_the_note_is_left(paths: NodePaths) -> None:
    # An earlier release synced code before it ran, and its sandboxes may still run it.
    versions = _versions(paths)
    assert paths.code.forget_unsynced("first") == 0
    assert all(path.exists() for path in versions.values())


def test_a_note_that_a_crash_has_emptied_is_that_of_another_kernel(paths: NodePaths) -> None:
    paths.code.forget_unsynced("first")
    versions = _versions(paths)
    (note,) = (each for each in paths.code.root.iterdir() if each.is_file())
    note.write_bytes(b"")
    assert paths.code.forget_unsynced("first") == 1
    assert not versions["memory"].exists()


def test_code_that_cannot_be_listed_stops_the_start(
    paths: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.code.forget_unsynced("first")
    _versions(paths)

    def failing(_: Path) -> list[Path]:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(filesystem, "folders", failing)
        with pytest.raises(PathFault, match="Input/output error"):
            paths.code.forget_unsynced("second")
    assert paths.code.forget_unsynced("second") == 1, (
        "the note is of the kernel that wrote the code"
    )
