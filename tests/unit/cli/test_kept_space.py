"""Deleted files that processes keep, as the kernel shows them to root."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from storlet_middleware.cli import kept_space
from storlet_middleware.cli.kept_space import Kept, kept_by

USER = os.getuid()
CONTENT = b"x" * 100_000


@pytest.fixture(scope="module")
def proc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only this process: others may have rights that it lacks."""
    made = tmp_path_factory.mktemp("proc")
    (made / "self").mkdir()
    (made / "1").symlink_to(f"/proc/{os.getpid()}")
    return made


def kept(proc: Path, user: int = USER) -> Kept:
    return kept_by({user}, proc)[user]


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the tests counts as a disk, also on a machine where it is in memory."""
    monkeypatch.setattr(kept_space, "memory_devices", lambda _process: frozenset())


@contextmanager
def deleted(folder: Path, proc: Path) -> Iterator[tuple[IO[bytes], tuple[int, int]]]:
    """An open file without a name, and its device and inode."""
    path = folder / "object"
    path.write_bytes(CONTENT)
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        assert (facts.st_dev, facts.st_ino) not in kept(proc).files, "it has a name"
        path.unlink()
        yield file, (facts.st_dev, facts.st_ino)


def test_an_open_file_counts_until_it_is_closed(tmp_path: Path, proc: Path, on_disk: None) -> None:
    with deleted(tmp_path, proc) as (_, key):
        found = kept(proc)
        assert found.files[key] >= len(CONTENT)
        assert found.size_bytes >= found.files[key]
    assert key not in kept(proc).files


def test_a_mapped_file_counts_until_it_is_unmapped(
    tmp_path: Path, proc: Path, on_disk: None
) -> None:
    with deleted(tmp_path, proc) as (file, key):
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    assert kept(proc).files[key] >= len(CONTENT)
    mapped.close()
    assert key not in kept(proc).files


def test_a_descriptor_in_a_message_counts_as_one(tmp_path: Path, proc: Path, on_disk: None) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, deleted(tmp_path, proc) as (file, _):
        socket.send_fds(ours, [b"x"], [file.fileno(), file.fileno()])
        found = kept(proc)
        assert found.messages[os.fstat(theirs.fileno()).st_ino] == 2
        assert found.in_messages >= 2


def test_files_in_memory_do_not_count(proc: Path) -> None:
    number = os.memfd_create("x")
    try:
        facts = os.fstat(number)
        assert (facts.st_dev, facts.st_ino) not in kept(proc).files
    finally:
        os.close(number)


def test_other_users_do_not_count(tmp_path: Path, proc: Path, on_disk: None) -> None:
    with deleted(tmp_path, proc):
        assert kept(proc, 4_000_000_000).files == {}


def test_mounts_in_memory_are_known(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(
        "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "2 1 0:50 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1k\n"
        "3 1 0:60 /code/1 /code ro,nosuid - tmpfs tmpfs rw\n"
    )
    found = kept_space.memory_devices(tmp_path)
    assert os.makedev(0, 50) in found
    # A part of a file system of the node.
    assert os.makedev(0, 60) not in found
    assert os.makedev(8, 1) not in found
