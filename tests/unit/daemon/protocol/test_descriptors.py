"""Ownership of descriptors, and sealed memory files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from storlet_daemon.protocol.descriptors import Descriptors, close_quietly, sealed_memory


def test_each_descriptor_is_closed_once() -> None:
    first = os.open(os.devnull, os.O_RDONLY)
    owner = Descriptors([first])
    owner.close()
    again = os.open(os.devnull, os.O_RDONLY)
    assert again == first
    owner.close()
    del owner
    os.fstat(again)
    os.close(again)


def test_a_taken_descriptor_belongs_to_the_caller() -> None:
    first, second = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
    with Descriptors([first]) as owner:
        assert owner.add(second) == 1
        assert owner.take(0) == first
        assert owner.filenos() == [second]
        assert len(owner) == 2
        for position in (0, 2, -1):
            with pytest.raises(LookupError):
                owner.take(position)
    os.fstat(first)
    os.close(first)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(second)


def test_an_owner_without_references_closes() -> None:
    reading, writing = os.pipe()
    Descriptors([writing])
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_an_owner_keeps_the_positions_and_closes_after_an_error() -> None:
    first, second = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
    owner = Descriptors([first, second])
    taken = owner.take(1)
    with pytest.raises(KeyError), owner:
        raise KeyError
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(first)
    with pytest.raises(LookupError):
        owner.take(0)
    assert (len(owner), owner.filenos()) == (2, [])
    os.close(taken)


def test_the_size_of_a_sealed_file_is_fixed() -> None:
    fd = sealed_memory("test", 4096)
    try:
        assert os.fstat(fd).st_size == 4096
        for size in (0, 4095, 4097):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        os.lseek(fd, 4096, os.SEEK_SET)
        with pytest.raises(PermissionError):
            os.write(fd, b"x")
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    finally:
        os.close(fd)


def test_a_file_that_cannot_have_its_size_is_closed() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="Invalid argument"):
        sealed_memory("test", -1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_offset_of_a_sealed_file_counts_the_bytes_written_by_all_duplicates() -> None:
    fd = sealed_memory("test", 4096)
    duplicate = os.dup(fd)
    os.write(duplicate, b"12345")
    os.close(duplicate)
    assert os.lseek(fd, 0, os.SEEK_CUR) == 5
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_closing_quietly_ignores_a_closed_descriptor() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    close_quietly(fd)
    close_quietly(fd)
    close_quietly(-1)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
