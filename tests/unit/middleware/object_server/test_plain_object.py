"""Plain objects on disk, and the descriptors of their files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.object_server.plain_object import NOT_PLAIN, duplicate, plain_file
from tests.unit.middleware.object_nodes import Reader
from tests.unit.middleware.support import open_descriptors


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "o.data"
    path.write_bytes(b"hello")
    path.chmod(0o644)
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    made = Reader(path)
    yield made
    made.close()


def test_only_a_complete_plain_answer_has_a_file(reader: Reader) -> None:
    plain = {"content-length": "5", "x-object-meta-color": "red"}
    assert plain_file("200 OK", plain, reader) is reader._fp
    for status in ("206 Partial Content", "304 Not Modified", "404 Not Found", "2000 Odd"):
        assert plain_file(status, plain, reader) is None
    for header in NOT_PLAIN:
        assert plain_file("200 OK", {**plain, header: ""}, reader) is None


def test_another_disk_file_backend_has_no_file() -> None:
    assert plain_file("200 OK", {}, [b"hello"]) is None


def test_the_descriptor_is_at_the_start_and_outlives_its_reader(reader: Reader) -> None:
    reader._fp.seek(3)
    before = open_descriptors()
    fd = duplicate(reader._fp, reader)
    assert reader._fp.closed
    assert open_descriptors() == before  # one is closed, one is new
    assert os.read(fd, 9) == b"hello"
    os.close(fd)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600, 0o607])
def test_others_cannot_read_the_file_by_its_mode(reader: Reader, path: Path, mode: int) -> None:
    """By its mode a sandbox could read system metadata in the extended attributes."""
    path.chmod(mode)
    os.close(duplicate(reader._fp, reader))
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o770


def test_a_file_of_another_user_keeps_its_mode(
    reader: Reader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("not the owner")

    monkeypatch.setattr(os, "fchmod", refuse)
    os.close(duplicate(reader._fp, reader))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_file_system_without_read_ahead_serves_the_object(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    fd = duplicate(reader._fp, reader)
    assert os.read(fd, 9) == b"hello"
    os.close(fd)


def test_a_failure_leaves_no_descriptor_open(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise OSError("no seek")

    monkeypatch.setattr(os, "lseek", fail)
    before = open_descriptors()
    with pytest.raises(OSError, match="no seek"):
        duplicate(reader._fp, reader)
    assert open_descriptors() == before
    assert not reader._fp.closed
