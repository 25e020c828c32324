"""Self-tests: permissions of a trust class, and helpers that all tests use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_daemon.selftest.model import Facts, listed, opens, own_folder, read


def test_writable_mounts_follow_the_permissions() -> None:
    assert Facts(0, 1, frozenset({"network", "write:/out"})).writable == ("/tmp", "/homes", "/out")


def test_a_long_list_of_findings_is_truncated() -> None:
    assert listed([]) == ""
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_folder_of_a_test_is_private_and_removed() -> None:
    with own_folder() as folder:
        path = Path(folder)
        assert path.parent == Path("/tmp")
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "inner").mkdir()
    assert not path.exists()


def test_a_folder_of_a_test_that_fails_is_removed() -> None:
    folders: list[Path] = []

    def fail() -> None:
        with own_folder() as folder:
            folders.append(Path(folder))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not folders[0].exists()


def test_opening_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert not opens(str(file), os.O_RDONLY)
    file.write_text("content")
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert opens(str(file), os.O_WRONLY)
    assert opens(str(tmp_path), os.O_RDONLY)
    assert not opens(str(tmp_path), os.O_WRONLY)
    assert file.read_text() == "content"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_pipe_without_a_writer_does_not_block_a_test(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert opens(str(tmp_path / "pipe"), os.O_RDONLY)
    assert not opens(str(tmp_path / "pipe"), os.O_WRONLY)


def test_a_file_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb")
    assert read(str(tmp_path / "file")) == "a\N{REPLACEMENT CHARACTER}b"
    assert read(str(tmp_path / "missing")) == ""
    assert read(str(tmp_path)) == ""
