"""code.py, launch.py and engine/sandbox_client.py: code on the node, sandboxd, a worker."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine.code_cache import CodeCache
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.sandbox_client import SandboxClient
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.engine.task import StreamInput
from storlet_middleware.errors import StorletError
from tests.unit.middleware.support import (
    Logger,
    Node,
    Workers,
    make_config,
    open_descriptors,
    wait_until,
)

BODY = b"class Up: pass"


def version(body: bytes = BODY, **changes: Any) -> StorletVersion:
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    file = replace(CodeFile("storlet", "up.py", digest, "1", len(body), 0o444), **changes)
    return StorletVersion("AUTH_test", "up.py", "python", "", "up.Up", (file,))


class Fetcher:
    def __init__(
        self, body: bytes = BODY, pause: float = 0.0, error: BaseException | None = None
    ) -> None:
        self.body, self.pause, self.error, self.count = body, pause, error, 0

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        self.count += 1
        yield self.body[:5]
        eventlet.sleep(self.pause)
        if self.error:
            raise self.error
        yield self.body[5:]


def left(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir() if not entry.name.startswith(".lock-")]


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


def test_whoever_asks_at_the_same_time_waits_for_one_fetch(tmp_path: Path) -> None:
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


def test_what_a_crash_left_is_cleared_when_it_is_old(tmp_path: Path) -> None:
    for name, age in ((".tmp-old", 7200), (".tmp-new", 10), ("kept", 7200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"x")
        when = time.time() - age
        os.utime(tmp_path / name, (when, when))
    CodeCache(1000, Logger()).ensure(str(tmp_path), version(), Fetcher())
    assert set(left(tmp_path)) == {".tmp-new", "kept", version().key}


def test_the_key_changes_with_all_that_matters_and_the_description_survives_json() -> None:
    base = version()
    others = [
        version(b"other"),
        version(timestamp="2"),
        version(mode=0o555),
        replace(base, account="AUTH_b"),
        replace(base, main="up.Other"),
        replace(base, language_version="3.11"),
        replace(base, files=base.files * 2),
    ]
    assert len({base.key, *(other.key for other in others)}) == len(others) + 1
    assert StorletVersion.from_text(base.text) == base
    assert StorletVersion.from_text(base.text) is StorletVersion.from_text(base.text)


# --- sandboxd and workers


class Nothing:
    """An input without a byte."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def abandon(self) -> None: ...

    def close(self) -> None: ...


def start(launcher: Launcher, fetcher: Fetcher) -> None:
    task = launcher.task("tx-1", {}, launcher.effective(version(), {}), wants_log=False)
    invocation = Invocation(task, [StreamInput(Nothing(), {})])
    try:
        launcher.start(invocation, version(), fetcher)
        assert invocation.first()
    finally:
        invocation.close()


def test_a_warm_start_asks_nobody(node: Node, short_dir: Path) -> None:
    launcher, fetcher = Launcher(make_config(short_dir), Logger()), Fetcher()
    for _ in range(3):
        start(launcher, fetcher)
    assert [type(request).__name__ for request in node.asked] == ["Prepare", "Acquire"]
    assert fetcher.count == 1


def test_a_socket_that_has_gone_is_asked_for_again(node: Node, short_dir: Path) -> None:
    launcher = Launcher(make_config(short_dir), Logger())
    start(launcher, Fetcher())
    node.workers.close()
    Path(node.workers.path).unlink()
    node.workers = Workers(short_dir / "w2.sock")
    start(launcher, Fetcher())
    assert len(node.asked) == 4


@pytest.mark.parametrize(
    ("code", "status"),
    [("sandbox.unavailable", 503), ("node.busy", 503), ("bad_request", 400), ("internal", 500)],
)
def test_what_sandboxd_refuses_becomes_that_error(
    node: Node, short_dir: Path, code: str, status: int
) -> None:
    node.answer = lambda _: messages.NodeRefused(code, "why", 9)
    with pytest.raises(StorletError) as caught:
        start(Launcher(make_config(short_dir), Logger()), Fetcher())
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (status, code, 9)


def test_code_that_sandboxd_has_just_removed_is_fetched_once_more(
    node: Node, short_dir: Path
) -> None:
    usual, fetcher, refused = node.answer, Fetcher(), []

    def answer(request: Any) -> Any:
        if isinstance(request, messages.Acquire) and not refused:
            refused.append(request)
            shutil.rmtree(node.code_dir / version().key)
            return messages.NodeRefused("code.missing", "it went away")
        return usual(request)

    node.answer = answer
    start(Launcher(make_config(short_dir), Logger()), fetcher)
    assert (fetcher.count, [path.name for path in node.code_dir.iterdir()]) == (2, [version().key])


@pytest.mark.parametrize("answer", [None, messages.NodeStatus(), messages.Prepared("/x")])
def test_an_answer_that_makes_no_sense_is_an_error(
    node: Node, short_dir: Path, answer: Any
) -> None:
    node.answer = lambda _: answer
    before = open_descriptors()
    with pytest.raises(StorletError) as caught:
        SandboxClient(str(short_dir), 1).connect_cold(
            "AUTH_test", version().load_request("a" * 64, messages.Resources())
        )
    assert caught.value.status in (500, 503)
    assert wait_until(lambda: open_descriptors() <= before)


def test_a_sandboxd_that_does_not_run_or_answer_is_503(
    short_dir: Path, tmp_path: Path, node: Node
) -> None:
    with pytest.raises(StorletError) as caught:
        SandboxClient(str(tmp_path), 1).prepare("AUTH_test", "up.py")
    assert (caught.value.code, caught.value.retry_after) == ("sandbox.unavailable", 5)

    is_over = threading.Event()

    def silent(request: Any) -> None:
        is_over.wait(30)

    node.answer = silent
    with pytest.raises(StorletError, match="no sandbox within"):
        SandboxClient(str(short_dir), 0.2).prepare("AUTH_test", "up.py")
    is_over.set()


def test_who_waits_for_a_cold_start_may_say_so_and_may_leave(node: Node, short_dir: Path) -> None:
    launcher = Launcher(make_config(short_dir), Logger())
    invocation = Invocation(
        launcher.task("tx-1", {}, launcher.effective(version(), {}), wants_log=False), []
    )
    before = open_descriptors()
    waiting = launcher.start_with_heartbeats(invocation, version(), Fetcher(pause=5), (0.05, 0.05))
    next(waiting)
    next(waiting)
    waiting.close()  # type: ignore[attr-defined]
    invocation.close()
    assert wait_until(lambda: open_descriptors() <= before)
    assert left(node.code_dir) == []
