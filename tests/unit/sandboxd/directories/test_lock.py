"""The lock of a node: one sandboxd at a time."""

from __future__ import annotations

import fcntl
import os

import pytest

from storlet_middleware.sandboxd.directories.lock import NodeLock
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.errors import StartupFault


def test_a_second_lock_names_the_holder_and_a_free_one_can_be_taken_again(paths: NodePaths) -> None:
    first, second = NodeLock(paths.lock_file), NodeLock(paths.lock_file)
    first.acquire()
    with pytest.raises(StartupFault, match=f"pid {os.getpid()} holds"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_lock_whose_file_was_removed_meanwhile_is_none(
    paths: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--remove-all`` ends between the other's ``open`` and ``flock``: a third would lock a new
    file.
    """
    real = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        paths.lock_file.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(StartupFault, match="start again"):
        NodeLock(paths.lock_file).acquire()
