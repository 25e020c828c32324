"""Paths on the node: owners, modes, and what is refused."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.errors import PathFault, StartupFault
from storlet_middleware.sandboxd.lock import NodeLock
from storlet_middleware.sandboxd.paths import NodePaths

KEY = "0123456789abcdef"
VERSION = "a" * 64


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(
        tempfile.mkdtemp(prefix="sd-", dir="/tmp")
    )  # short: the path of a socket ends at 107 bytes
    yield path
    shutil.rmtree(path)


@pytest.fixture
def paths(home: Path) -> NodePaths:
    made = NodePaths(home / "run", home / "state", os.getuid(), os.getgid())
    made.make()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(path))


def test_modes_are_those_of_the_table_with_any_umask(home: Path) -> None:
    old = os.umask(0o077)
    try:
        paths = NodePaths(home / "run", home / "state", os.getuid(), os.getgid())
        paths.make()
        paths.sandboxes.make(KEY)
        paths.code.make("AUTH_a", os.getuid())
        paths.sandboxes.listen_for_supervisor(KEY).close()
        listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
        listener.close()
    finally:
        os.umask(old)
    run = home / "run"
    assert [mode(p) for p in (run, run / "c", run / "s", run / "c" / KEY, run / "s" / KEY)] == [
        0o755, 0o700, 0o750, 0o755, 0o750,
    ]  # fmt: skip
    assert mode(run / "c" / KEY / "control.sock") == 0o666
    assert mode(temporary) == 0o660
    assert mode(home / "state" / "code") == 0o750
    assert mode(paths.code.path_of("AUTH_a")) == 0o755


def test_make_may_be_repeated(paths: NodePaths) -> None:
    paths.make()


@pytest.mark.parametrize("name", ["c", "s"])
def test_a_link_instead_of_a_directory_is_refused(home: Path, name: str) -> None:
    (home / "run").mkdir()
    (home / "run" / name).symlink_to("/etc")
    with pytest.raises(PathFault):
        NodePaths(home / "run", home / "state", os.getuid(), os.getgid()).make()


def test_a_directory_of_another_user_is_refused(home: Path) -> None:
    (home / "run").mkdir()
    with pytest.raises(PathFault, match="belongs to uid"):
        NodePaths(home / "run", home / "state", os.getuid() + 1, os.getgid()).make()


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


def test_a_group_socket_appears_only_when_published_and_replaces_the_old_one(
    paths: NodePaths,
) -> None:
    paths.sandboxes.make(KEY)
    path = paths.sandboxes.group_socket(KEY, VERSION)
    for _ in range(2):
        listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
        paths.sandboxes.publish(temporary, KEY, VERSION)
        assert not temporary.exists()
        connect(path)
        listener.close()
    paths.sandboxes.withdraw(KEY, VERSION)
    assert not path.exists()
    paths.sandboxes.withdraw(KEY, VERSION)


def test_adoption_keeps_the_sockets_of_live_groups_only(paths: NodePaths) -> None:
    paths.sandboxes.make(KEY)
    for version in ("a" * 64, "b" * 64):
        listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
        paths.sandboxes.publish(temporary, KEY, version)
        listener.close()
    listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
    listener.close()
    assert paths.sandboxes.keep_group_sockets(KEY, ["a" * 64, "c" * 64]) == {"a" * 64}
    assert [p.name for p in paths.sandboxes.group_socket(KEY, VERSION).parent.iterdir()] == [
        "a" * 24 + ".sock"
    ]


def test_the_request_socket_replaces_a_stale_one(paths: NodePaths) -> None:
    paths.listen_for_requests().close()
    with pytest.raises(ConnectionRefusedError):
        connect(paths.request_socket)
    with paths.listen_for_requests():
        connect(paths.request_socket)


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


def test_a_run_dir_too_long_for_sockets_is_refused_with_the_surplus() -> None:
    assert len("/" + 57 * "x" + "/s/" + KEY + "/" + 24 * "v" + ".sock") == 107
    NodePaths(Path("/" + 57 * "x"), Path("/state"), 0, 0).check()
    with pytest.raises(StartupFault, match="too long by 2 bytes"):
        NodePaths(Path("/" + 59 * "x"), Path("/state"), 0, 0).check()
    with pytest.raises(StartupFault, match="absolute"):
        NodePaths(Path("run"), Path("/state"), 0, 0).check()


def test_a_second_lock_names_the_holder_and_a_free_one_can_be_taken_again(paths: NodePaths) -> None:
    first, second = NodeLock(paths.lock_file), NodeLock(paths.lock_file)
    first.acquire()
    with pytest.raises(StartupFault, match=f"pid {os.getpid()} holds"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_clearing_the_run_dir_removes_only_sandboxds_files(paths: NodePaths) -> None:
    paths.sandboxes.make(KEY)
    paths.listen_for_requests().close()
    other = paths.run_dir / "other"
    other.touch()
    paths.clear_run_dir()
    assert list(paths.run_dir.iterdir()) == [other]
    other.unlink()
    paths.clear_run_dir()
    assert not paths.run_dir.exists()


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
