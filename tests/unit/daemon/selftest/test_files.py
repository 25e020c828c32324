"""Paths that can be written, read or reached: parsed mounts, and findings in a folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from storlet_daemon.selftest import files
from storlet_daemon.selftest.model import Facts
from tests.unit.daemon.selftest.rows import attempt

MOUNTINFO = """\
22 1 0:20 / / ro,relatime - overlay overlay rw,lowerdir=/x
23 22 0:21 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=100k
24 22 0:22 / /proc rw,nosuid - proc proc rw
25 22 8:1 /code /code rw,relatime - ext4 /dev/sda1 ro,data=ordered
26 22 8:1 /out /out rw,relatime shared:1 - ext4 /dev/sda1 rw
"""


@pytest.fixture
def mountinfo(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the kernel's list of mounts; the test may change them."""
    lines = MOUNTINFO.splitlines()
    monkeypatch.setattr(files, "read", lambda _path: "\n".join(lines))
    return lines


def test_a_mount_is_read_only_by_itself_or_by_its_file_system(mountinfo: list[str]) -> None:
    read_only = {path for path, options in files.mounts().items() if "ro" in options}
    assert read_only == {"/", "/code"}
    assert files.mounts()["/tmp"] == {"rw", "nosuid", "nodev"}


def test_writable_mounts_need_a_permission(mountinfo: list[str]) -> None:
    assert attempt("mounts-read-only") == "/out is mounted for writing"
    assert attempt("mounts-read-only", Facts(0, 1, frozenset({"write:/out"}))) == ""


def test_the_scratch_is_a_mount_without_devices_and_setuid(mountinfo: list[str]) -> None:
    assert attempt("scratch-options") == ""
    mountinfo[1] = mountinfo[1].replace("rw,nosuid,nodev", "rw")
    assert attempt("scratch-options") == "/tmp has no nosuid, /tmp has no nodev"
    del mountinfo[1]
    assert attempt("scratch-options") == "/tmp is not a mount of its own"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the tests walk instead of the whole file system."""
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scan(tmp_path if path == "/" else path))
    return tmp_path


def facts_of(tree: Path) -> Facts:
    """The scratch is skipped, and the tree of a test may be below /tmp."""

    class Elsewhere(Facts):
        @property
        def writable(self) -> tuple[str, ...]:
            return ("/nowhere",)

    return Elsewhere(0, 1)


def test_setuid_files_are_found_and_links_are_not(tree: Path) -> None:
    assert attempt("files-not-setuid", facts_of(tree)) == ""
    program = tree / "folder" / "su"
    program.parent.mkdir()
    program.touch()
    program.chmod(0o4755)
    (tree / "link").symlink_to(program)
    assert attempt("files-not-setuid", facts_of(tree)) == f"setuid or setgid: {program}"


def test_sockets_are_found_and_tried(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SOCKETS", (str(tree / "known.sock"),))
    assert attempt("files-no-sockets", facts_of(tree)) == ""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as answering:
        answering.bind(str(tree / "known.sock"))
        answering.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
            silent.bind(str(tree / "other.sock"))
        assert attempt("files-no-sockets", facts_of(tree)) == (
            f"{tree}/known.sock answers, {tree}/other.sock is there"
        )


def test_a_file_that_can_be_opened_for_writing_is_reported_and_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "setting"
    monkeypatch.setattr(files, "KERNEL_FILES", (str(path),))
    assert attempt("kernel-files") == ""
    path.write_text("1")
    assert attempt("kernel-files") == f"can be written to: {path}"
    assert path.read_text() == "1"


def test_secrets_are_files_that_open_and_folders_with_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the sandbox hides behind /dev/null is no secret."""
    secret, folder, masked = (tmp_path / name for name in ("shadow", "root", "kcore"))
    folder.mkdir()
    masked.symlink_to("/dev/null")
    monkeypatch.setattr(files, "SECRETS", (str(secret), str(masked)))
    monkeypatch.setattr(files, "SECRET_FOLDERS", (str(folder),))
    assert attempt("files-of-others") == ""
    secret.touch()
    (folder / "key").touch()
    assert attempt("files-of-others") == f"can be read: {secret}, {folder}"
