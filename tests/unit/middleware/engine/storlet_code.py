"""A storlet version, its code, and a launch of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import eventlet

from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.start_times import StartTimes
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.engine.task import StreamInput

BODY = b"class Up: pass"


def version(body: bytes = BODY, **changes: Any) -> StorletVersion:
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    file = replace(CodeFile("storlet", "up.py", digest, "1", len(body), 0o444), **changes)
    return StorletVersion("AUTH_test", "up.py", "python", "", "up.Up", (file,))


def bundle_version(data: bytes, digest: str = "") -> StorletVersion:
    known = digest or hashlib.sha256(data).hexdigest()
    wanted = version(data, name="versions/tool/1-ab")
    return replace(wanted, name="tool", main="tool.Tool", digest=known)


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
    return [entry.name for entry in directory.iterdir()]


class Nothing:
    """An input without a byte."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def abandon(self) -> None: ...

    def close(self) -> None: ...


def start(launcher: Launcher, fetcher: Fetcher) -> StartTimes:
    task = launcher.task("tx-1", {}, launcher.effective(version(), {}), wants_log=False)
    invocation = Invocation(task, [StreamInput(Nothing(), {})])
    try:
        launcher.start(invocation, version(), fetcher)
        assert invocation.output.first()
        return invocation.start_times
    finally:
        invocation.close()
