"""Code on the node: fetched once, complete, and never partial."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import eventlet
import pytest

from storlet_middleware import code_folders, concurrency
from storlet_middleware.engine import code_cache, fetch_lock, unpack_process
from storlet_middleware.engine.code_cache import CodeCache
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import InternalError, NodeBusy, StorletError
from tests.support.bundles import bundle, tool
from tests.support.forks import FORKS
from tests.unit.middleware.engine.storlet_code import BODY, Fetcher, bundle_version, left, version
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import open_descriptors, wait_until


def test_code_arrives_whole_with_its_mode(tmp_path: Path) -> None:
    wanted = version(mode=0o555)
    old = os.umask(0o077)
    try:
        CodeCache(1000, Logger()).ensure(str(tmp_path), wanted, Fetcher())
    finally:
        os.umask(old)
    file = tmp_path / wanted.key / "up.py"
    assert file.read_bytes() == BODY
    assert file.stat().st_mode & 0o777 == 0o555


def test_concurrent_requests_for_the_same_code_share_one_fetch(tmp_path: Path) -> None:
    fetcher, cache = Fetcher(pause=0.1), CodeCache(1000, Logger())
    tasks = [eventlet.spawn(cache.ensure, str(tmp_path), version(), fetcher) for _ in range(50)]
    for task in tasks:
        task.wait()
    assert fetcher.count == 1
    assert left(tmp_path) == [version().key]


def test_one_that_is_killed_leaves_the_fetch_to_the_next(tmp_path: Path) -> None:
    fetcher, cache = Fetcher(pause=60), CodeCache(1000, Logger())
    first, second = (
        eventlet.spawn(cache.ensure, str(tmp_path), version(), fetcher) for _ in range(2)
    )
    eventlet.sleep(0.05)
    fetcher.pause = 0.0
    first.kill()
    second.wait()
    assert fetcher.count == 2
    assert left(tmp_path) == [version().key]


@pytest.mark.parametrize(
    ("fetcher", "wanted"),
    [
        (Fetcher(b"class Up: PASS"), version()),
        (Fetcher(BODY[:-1]), version()),
        (Fetcher(BODY + b"more"), version()),
        (Fetcher(BODY[:-1]), version(is_segmented=True)),
        (Fetcher(error=OSError("lost")), version()),
        (Fetcher(error=eventlet.Timeout(None)), version()),
        (Fetcher(b"x" * 2000), version(b"x" * 2000)),
    ],
    ids=["altered", "short", "long", "segmented", "broken", "timeout", "too-large"],
)
def test_code_that_is_not_exactly_what_was_named_leaves_nothing(
    tmp_path: Path, fetcher: Fetcher, wanted: StorletVersion
) -> None:
    before = open_descriptors()
    with pytest.raises((StorletError, OSError, eventlet.Timeout)):
        CodeCache(1000, Logger()).ensure(str(tmp_path), wanted, fetcher)
    assert left(tmp_path) == []
    assert open_descriptors() == before


def test_leftovers_of_a_crash_are_removed_when_they_are_old(tmp_path: Path) -> None:
    for name in (".tmp-old", ".tmp-new", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"x")
    for name in (".lock-old", ".lock-new"):
        (tmp_path / name).touch()
    for name in (".tmp-old", ".lock-old", "kept"):
        when = time.time() - 7200
        os.utime(tmp_path / name, (when, when))
    CodeCache(1000, Logger()).ensure(str(tmp_path), version(), Fetcher())
    assert set(left(tmp_path)) == {".tmp-new", ".lock-new", "kept", version().key}


def test_tasks_that_wait_for_a_fetch_that_fails_share_the_next_one(tmp_path: Path) -> None:
    """The lock of the first is removed with it: all others must wait for the same one."""
    fetcher, cache = Fetcher(pause=0.2), CodeCache(1000, Logger())
    first = eventlet.spawn(cache.ensure, str(tmp_path), version(), fetcher)
    eventlet.sleep(0.05)
    others = [eventlet.spawn(cache.ensure, str(tmp_path), version(), fetcher) for _ in range(5)]
    eventlet.sleep(0.05)
    first.kill()
    late = [eventlet.spawn(cache.ensure, str(tmp_path), version(), fetcher) for _ in range(5)]
    for task in (*others, *late):
        task.wait()
    assert fetcher.count == 2
    assert left(tmp_path) == [version().key]


def test_a_bundle_is_unpacked_and_its_zip_is_not_kept(tmp_path: Path) -> None:
    data = tool("tool")
    wanted = bundle_version(data)
    CodeCache(1 << 20, Logger()).ensure(str(tmp_path), wanted, Fetcher(data))
    assert left(tmp_path) == [wanted.key]
    assert sorted(each.name for each in (tmp_path / wanted.key).iterdir()) == [
        "lib", "storlet.lock.json", "tool.py"
    ]  # fmt: skip


@pytest.mark.usefixtures("real_processes")
def test_a_bundle_is_synced_after_it_has_its_name(tmp_path: Path) -> None:
    # Descriptors of earlier tests that only the collector closes would be missing later.
    gc.collect()
    before, others = open_descriptors(), _children()
    for number in range(5):
        data = tool("tool", str(number))
        wanted = bundle_version(data)
        CodeCache(1 << 20, Logger()).ensure(str(tmp_path), wanted, Fetcher(data))
        assert wait_until(partial(_is_on_disk, tmp_path / wanted.key))
    # Each process was reaped, and the descriptor that waited for it is closed.
    assert wait_until(lambda: open_descriptors() == before)
    assert wait_until(lambda: _children() == others)
    assert sorted(left(tmp_path)) == sorted({path.name for path in tmp_path.glob("[0-9a-f]*")})


@pytest.mark.usefixtures("real_processes")
def test_process_that_does_not_end_its_rest_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input(); print(flush=True); import signal; signal.pause()"]
    others = _children()
    with concurrency.conversation(command, os.environ, 0.5, has_rest=True) as ask:
        assert ask(b"") == b"\n"
    assert _children() != others
    assert wait_until(lambda: _children() == others)


def _is_on_disk(version: Path) -> bool:
    return code_folders.is_on_disk(version.stat().st_mode)


def _children() -> set[str]:
    """The processes of this one; other tests may have left some, such as one that multiprocessing
    keeps.
    """
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_bundle_with_another_hash_leaves_nothing(tmp_path: Path) -> None:
    data = tool("tool")
    with pytest.raises(InternalError, match="arrived altered"):
        CodeCache(1 << 20, Logger()).ensure(
            str(tmp_path), bundle_version(data, "0" * 64), Fetcher(data)
        )
    assert left(tmp_path) == []


def test_a_full_disk_while_a_bundle_is_unpacked_is_the_nodes_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(unpack_process, "unpack", full)
    data = tool("tool")
    with pytest.raises(NodeBusy, match="No space left"):
        CodeCache(1 << 20, Logger()).ensure(str(tmp_path), bundle_version(data), Fetcher(data))
    assert left(tmp_path) == []


def _ensure(home: str, bundle_file: str, ready: Connection) -> None:
    """Fetch the bundle into the cache ``home``, as a server does."""
    data = Path(bundle_file).read_bytes()
    ready.send("ready")
    CodeCache(1 << 30, Logger()).ensure(home, bundle_version(data), Fetcher(data))


def _is_named(text: str) -> bool:
    """Whether a process has ``text`` in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                return True
    return False


@pytest.fixture(scope="module")
def large() -> bytes:
    """A bundle of 401 modules."""
    files = {f"lib/{number}.py": (os.urandom(4096), 0o644) for number in range(400)}
    return bundle("tool", {"tool.py": (b"class Tool: pass", 0o644), **files}, main="tool.Tool")


@pytest.mark.parametrize("milliseconds", [1, 20, 60, 100, 140, 180, 250])
def test_server_that_is_killed_while_it_unpacks_leaves_no_partial_version(
    tmp_path: Path, large: bytes, milliseconds: int
) -> None:
    data = large
    (tmp_path / "x.storlet").write_bytes(data)
    home = tmp_path / "code"
    home.mkdir()
    ours, theirs = FORKS.Pipe()
    arguments = (str(home), str(tmp_path / "x.storlet"), theirs)
    server = FORKS.Process(target=_ensure, args=arguments)
    with ours, theirs:
        server.start()
        assert ours.recv() == "ready"
    time.sleep(milliseconds / 1000)
    server.kill()
    server.join()
    # The process that unpacks is not killed; it ends by itself and renames nothing.
    assert wait_until(lambda: not _is_named(str(home)))
    wanted = bundle_version(data)
    complete = [each for each in home.iterdir() if not each.name.startswith(".")]
    assert [each.name for each in complete] in ([], [wanted.key])
    for each in complete:
        assert len(list(each.rglob("*.py"))) == 401
    for each in home.glob(".tmp-*"):
        os.utime(each, (0, 0))
    code_cache.CodeCache(1 << 30, Logger()).ensure(str(home), wanted, Fetcher(data))
    assert len(list((home / wanted.key).rglob("*.py"))) == 401
    if not complete:
        assert left(home) == [wanted.key]


class _HeldFetcher(Fetcher):
    """Waits for a word of the test before the second half."""

    def __init__(self, test: Connection) -> None:
        super().__init__()
        self._test = test

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        yield self.body[:5]
        self._test.recv()
        yield self.body[5:]


def _ensure_held(home: str, test: Connection) -> None:
    """Fetch the code, as a server process does."""
    CodeCache(1000, Logger()).ensure(home, version(), _HeldFetcher(test))
    test.send("ok")


def test_server_that_is_stopped_while_it_fetches_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_lock, "STALL_SECONDS", 0.2)
    ours, theirs = FORKS.Pipe()
    server = FORKS.Process(target=_ensure_held, args=(str(tmp_path), theirs))
    server.start()
    assert wait_until(lambda: any(tmp_path.glob(".tmp-*/*")))
    os.kill(server.pid or 0, signal.SIGSTOP)
    logger, fetcher = Logger(), Fetcher()
    cache = CodeCache(1000, logger)
    before = open_descriptors()
    try:
        tasks = [eventlet.spawn(cache.ensure, str(tmp_path), version(), fetcher) for _ in range(20)]
        for task in tasks:
            task.wait()
        assert fetcher.count == 1
        assert open_descriptors() == before
        assert logger.text.count("fetch of code stalls") == 1
    finally:
        os.kill(server.pid or 0, signal.SIGCONT)
        ours.send("go on")
    # It finds the code complete, which is no failure, and removes its own partial copy.
    assert ours.poll(10)
    assert ours.recv() == "ok"
    server.join()
    assert left(tmp_path) == [version().key]
