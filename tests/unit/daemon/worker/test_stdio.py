"""Printed text: into the log during a run, discarded otherwise.

Each case runs in a child process, because it replaces the descriptors 1 and 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from storlet_daemon.author import LogFile
from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_daemon.worker.stdio import Stdio
from tests.unit.daemon.children import in_child

LIMIT = 1000


def printed(run: Callable[[Stdio], None], limit: int = LIMIT) -> str:
    """The log after ``run``, which starts with streams that discard."""

    def child() -> str:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        fd = sealed_memory("log", limit)
        stdio = Stdio()
        stdio.install()
        stdio.discard()
        stdio.begin(LogFile(fd, limit))
        run(stdio)
        stdio.end()
        return os.pread(fd, limit, 0).rstrip(b"\0").decode()

    return in_child(child)


def test_all_ways_to_print_reach_the_log() -> None:
    def run(_stdio: Stdio) -> None:
        print("print")
        print("error", file=sys.stderr)
        os.write(1, b"descriptor\n")
        os.system("echo child; echo child error >&2")  # noqa: S605  a storlet may do this

    assert printed(run).split("\n")[:-1] == ["print", "error", "descriptor", "child", "child error"]


def test_text_that_was_not_flushed_belongs_to_its_run() -> None:
    assert printed(lambda _: print("no line end", end="")) == "no line end"


def test_text_outside_of_a_run_is_discarded() -> None:
    def run(stdio: Stdio) -> None:
        print("first")
        stdio.end()
        print("between")
        os.write(2, b"between\n")
        stdio.begin(None)
        print("without a log")
        os.write(1, b"without a log\n")

    assert printed(run) == "first\n"


def test_characters_that_are_not_unicode_do_not_fail_a_storlet() -> None:
    assert printed(lambda _: print("a\ud800b")) == "a\\ud800b\n"


def test_the_log_ends_at_its_limit() -> None:
    text = printed(lambda _: print("x" * 5000), limit=200)
    assert text.startswith("xxx")
    assert text.endswith("log truncated at 200 bytes\n")
    assert len(text) <= 200


@pytest.mark.parametrize("damage", ["close", "replace", "detach", "close descriptors"])
def test_the_next_run_can_print_after_a_storlet_damaged_the_streams(damage: str) -> None:
    def child() -> tuple[str, str]:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        logs = [sealed_memory("log", LIMIT) for _ in range(2)]
        stdio = Stdio()
        stdio.install()
        stdio.begin(LogFile(logs[0], LIMIT))
        print("first")
        if damage == "close":
            sys.stdout.close()
            sys.stderr.close()
        elif damage == "replace":
            sys.stdout = sys.stderr = None  # type: ignore[assignment]
        elif damage == "detach":
            sys.stdout.detach()
        else:
            os.close(1)
            os.close(2)
        stdio.end()
        stdio.begin(LogFile(logs[1], LIMIT))
        print("second")
        print("third", file=sys.stderr)
        os.write(1, b"fourth\n")
        stdio.end()
        first, second = (os.pread(fd, LIMIT, 0).rstrip(b"\0").decode() for fd in logs)
        return first, second

    assert in_child(child) == ("first\n", "second\nthird\nfourth\n")
