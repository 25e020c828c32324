"""Attempts to change or leave a donated file: on a file of this user, most are allowed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon.selftest.model import Facts
from tests.unit.daemon.selftest.rows import attempt, attempt_in_child


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "object"
    path.write_bytes(b"content")
    return path


@pytest.fixture
def facts(file: Path) -> Iterator[Facts]:
    fd = os.open(file, os.O_RDONLY)
    yield Facts(fd, 1)
    os.close(fd)


def test_a_useless_descriptor_fails_because_all_other_tests_would_pass(
    facts: Facts, file: Path
) -> None:
    assert attempt("donated-reads", facts) == ""
    file.write_bytes(b"")
    assert attempt("donated-reads", facts) == "the file is empty"
    with Path(os.devnull).open("wb") as write_only:
        unreadable = Facts(write_only.fileno(), 1)
        assert attempt("donated-reads", unreadable).startswith("cannot be read: ")


def test_a_descriptor_for_reading_cannot_be_written(facts: Facts, file: Path) -> None:
    assert attempt_in_child("donated-write", facts) == ""
    assert file.read_bytes() == b"content"


def test_every_way_to_write_to_a_writable_descriptor_is_reported(file: Path) -> None:
    with file.open("r+b") as writable:
        found = attempt_in_child("donated-write", Facts(writable.fileno(), 1))
    assert found == "allowed: pwrite, write, truncate, fallocate, mmap"


def test_a_file_that_can_be_opened_by_its_path_is_reported(facts: Facts) -> None:
    found = attempt_in_child("donated-reopen", facts)
    assert found.startswith(f"allowed: /proc/self/fd/{facts.descriptor} for writing, ")


def test_changes_by_the_owner_of_the_file_are_reported(facts: Facts) -> None:
    found = attempt_in_child("donated-change", facts)
    for name in ("chmod", "chmod by path", "chown", "utime"):
        assert name in found


def test_a_folder_that_can_be_listed_is_reported(facts: Facts, file: Path) -> None:
    assert f"{file.parent}" in attempt_in_child("donated-neighbours", facts)
