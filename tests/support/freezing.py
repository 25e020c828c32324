"""Processes that are stopped (SIGSTOP): they hold their sockets and files, and do nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


def freeze(pids: list[int]) -> None:
    """Stop the processes, in this order."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def thaw(pids: list[int]) -> None:
    """Let the processes continue, also where some have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    """Stop the processes during the block."""
    freeze(pids)
    try:
        yield
    finally:
        thaw(pids)


def with_children(pid: int) -> list[int]:
    """``pid`` and all processes below it."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [pid, *(below for child in listed.split() for below in with_children(int(child)))]
