"""Mounts in sandboxes: the refusals; ``tests/probe`` makes real mounts, which needs root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_middleware.sandboxd import mounting
from storlet_middleware.sandboxd.errors import MountFault
from tests.unit.middleware.support import open_descriptors

NO_PROCESS = 1 << 30
REFUSALS = [
    pytest.param(0, True, "out of sight", id="a process in another pid namespace"),
    pytest.param(NO_PROCESS, True, "No such file", id="a process that does not exist"),
    pytest.param(os.getpid(), False, "it has ended", id="a reused pid"),
    pytest.param(os.getpid(), True, "namespace is the host's", id="a process of the host"),
]


@pytest.mark.parametrize(("pid", "lives", "reason"), REFUSALS)
def test_a_mount_is_refused_for(tmp_path: Path, pid: int, *, lives: bool, reason: str) -> None:
    before = open_descriptors()
    with pytest.raises(MountFault, match=reason) as caught:
        mounting.mount_read_only(tmp_path, pid, "/target", lambda: lives)
    assert str(caught.value).startswith(f"{tmp_path} cannot be mounted in the sandbox: ")
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("pid", "reason"),
    [
        pytest.param(0, "out of sight", id="a process in another pid namespace"),
        pytest.param(os.getpid(), "namespace is the host's", id="a process of the host"),
    ],
)
def test_the_check_of_the_host_names_the_obstacle(tmp_path: Path, pid: int, reason: str) -> None:
    with pytest.raises(MountFault, match=rf"mounted in running sandboxes: .*{reason}"):
        mounting.check(tmp_path, pid)


def test_the_process_is_pinned_before_it_is_found_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the pid could be reused between the two steps."""
    steps: list[str] = []
    real: Callable[..., int] = os.open

    def opened(path: str, *args: int, **more: int) -> int:
        steps.append(str(path))
        return real(path, *args, **more)

    def is_alive() -> bool:
        steps.append("is alive")
        return False

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(MountFault):
        mounting.mount_read_only(tmp_path, os.getpid(), "/target", is_alive)
    assert steps == [f"/proc/{os.getpid()}", "is alive"]


def test_an_error_of_the_thread_in_the_namespace_is_raised_in_the_caller() -> None:
    """The thread cannot enter a namespace through a descriptor of something else."""
    descriptor = os.open("/dev/null", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"Invalid argument|not permitted"):
            mounting._in_namespace(descriptor, lambda: None)
    finally:
        os.close(descriptor)
