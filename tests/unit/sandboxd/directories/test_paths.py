"""Paths on the node: owners, modes, and what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.errors import PathFault, StartupFault
from tests.unit.sandboxd.doubles import connect

KEY = "0123456789abcdef"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


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
    assert mode(home / "state" / "spool") == 0o770
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


def test_the_request_socket_replaces_a_stale_one(paths: NodePaths) -> None:
    paths.listen_for_requests().close()
    with pytest.raises(ConnectionRefusedError):
        connect(paths.request_socket)
    with paths.listen_for_requests():
        connect(paths.request_socket)


def test_a_run_dir_too_long_for_sockets_is_refused_with_the_surplus() -> None:
    assert len("/" + 57 * "x" + "/s/" + KEY + "/" + 24 * "v" + ".sock") == 107
    NodePaths(Path("/" + 57 * "x"), Path("/state"), 0, 0).check()
    with pytest.raises(StartupFault, match="too long by 2 bytes"):
        NodePaths(Path("/" + 59 * "x"), Path("/state"), 0, 0).check()
    with pytest.raises(StartupFault, match="absolute"):
        NodePaths(Path("run"), Path("/state"), 0, 0).check()


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
