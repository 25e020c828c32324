"""The type of a self-test, and helpers of all of them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import field

from storlet_daemon.protocol.messages import Resources
from storlet_daemon.protocol.values import dataclass

SCRATCH = "/tmp"  # noqa: S108  the sandbox's own
HOMES = "/homes"
NETWORK = "network"
"""A permission of a trust class, as ``Check.allowed`` names it."""
WRITABLE = "write:"
"""The prefix of a permission, before the path of a writable mount."""


@dataclass(frozen=True)
class Facts:
    """The expected sandbox.

    ``supervisor`` is the process that started the test, ``descriptor`` a donated file.
    """

    descriptor: int
    supervisor: int
    allowed: frozenset[str] = frozenset()
    limits: Resources = field(default_factory=Resources)

    @property
    def writable(self) -> tuple[str, ...]:
        """Mounts that may be written to, the scratch and the homes first."""
        return (
            SCRATCH,
            HOMES,
            *sorted(
                name.removeprefix(WRITABLE) for name in self.allowed if name.startswith(WRITABLE)
            ),
        )


@dataclass(frozen=True)
class SelfTest:
    """One row: ``attempt`` returns "" if the sandbox held, else what happened, in a line.

    It runs in a process of its own, which is killed after ``seconds`` with all its children. It is
    skipped for a trust class that has the permission ``unless``.
    """

    name: str
    against: str
    attempt: Callable[[Facts], str]
    unless: str = ""
    # A test takes milliseconds. A node whose cores are all busy must not fail it by the timeout.
    seconds: float = 5.0


def listed(found: list[str], most: int = 3) -> str:
    """The first few of ``found``, and the number of the others; "" for none."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
    """A folder in the scratch for this process, removed afterwards."""
    path = f"{SCRATCH}/.selftest-{os.getpid()}"
    os.mkdir(path, 0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def opens(path: str, flags: int) -> bool:
    """True if the kernel opens ``path`` with ``flags``; nothing is read or written."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    os.close(descriptor)
    return True


def read(path: str) -> str:
    """A small file of /proc; "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
