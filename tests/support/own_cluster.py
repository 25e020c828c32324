"""A cluster that ends with the session that started it, even if that session is killed.

Its home contains the file :data:`CLEANER` while it exists.  The cleaner holds a lock on that file
(flock) until it ends, so a home whose file is not locked has no owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.cluster import CHECKOUT, Cluster, bring_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PARENT: Final = Path("/var/tmp")
#: A file system in memory, for homes whose disks no test measures: Swift synchronizes each write
#: with the disk, which takes a fifth of the processor time of a request that stores.
MEMORY: Final = Path("/dev/shm")
#: A home in memory begins with at least as much that is free; the homes of two workers have a few
#: hundred MB each.
FREE_BYTES: Final = 6 << 30
PREFIX: Final = "storlets-"
#: A file of the home: locked by the home's cleaner, whose process id it contains.
CLEANER: Final = "cleaner.pid"
#: Waits for the end of its standard input, which only the session holds open.
_SCRIPT: Final = """
import os, shutil, subprocess, sys
sys.stdin.read()
if not os.path.exists(sys.argv[1]):
    sys.exit()
command = [sys.executable, "-m", "storlet_middleware.aio", "down", "--purge"]
done = subprocess.run(command, check=False)
shutil.rmtree(sys.argv[1], ignore_errors=True)
sys.exit(done.returncode)
"""


def in_memory() -> Path:
    """:data:`MEMORY` if a cluster can store there, else :data:`PARENT`."""
    free = [int(line.split()[1]) << 10 for line in Path("/proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable:")]  # fmt: skip
    try:
        place = os.statvfs(MEMORY)
        with tempfile.NamedTemporaryFile(dir=MEMORY) as file:
            # Swift's metadata: since Linux 6.6.
            os.setxattr(file.fileno(), "user.swift.metadata", b"x" * 5000)
    except OSError:
        return PARENT
    is_large = min([*free, place.f_bavail * place.f_frsize]) >= FREE_BYTES
    # Bundles have programs.
    return MEMORY if is_large and not place.f_flag & os.ST_NOEXEC else PARENT


@contextlib.contextmanager
def own_cluster(name: str = "", parent: Path = PARENT, **choices: str) -> Iterator[Cluster]:
    """A new cluster for the length of a block; ``choices`` are those of :func:`bring_up`.

    Its home is a folder of ``parent``.

    The end of the block takes the cluster down and deletes its home.  A process of its own, the
    cleaner, does so if that fails, or when this process ends.  Homes whose cleaner has ended too,
    because the machine was switched off, are removed first.
    """
    remove_orphans()
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}", dir=parent))
    with start_cleaner(home) as cleaner:
        try:
            cluster = _up(home, choices)
            try:
                yield cluster
            finally:
                # It has the imports that a cleaner lacks, and leaves nothing to do for that one.
                with contextlib.suppress(AssertionError):
                    cluster.run("down", "--purge")
        finally:
            said, _ = cleaner.communicate()
            if cleaner.returncode:
                raise AssertionError(f"the cluster in {home} cannot be taken down:\n{said}")


def _up(home: Path, choices: Mapping[str, str]) -> Cluster:
    """Bring the cluster up; once more, with a warning, if the machine or a registry failed."""
    try:
        return bring_up(home, **choices)
    except AssertionError as error:
        warnings.warn(f"a cluster came up only when `up` was repeated: {error}", stacklevel=2)
        return bring_up(home, **choices)


def remove_orphans() -> None:
    """Take down clusters of earlier sessions that have neither a session nor a cleaner."""
    for file in itertools.chain(*(each.glob(f"{PREFIX}*/{CLEANER}") for each in (PARENT, MEMORY))):
        try:
            lock = os.open(file, os.O_RDWR)
        except FileNotFoundError:
            continue  # its home has just been deleted
        if _take(lock):
            _start(file.parent, lock).communicate()
        else:
            os.close(lock)


def start_cleaner(home: Path) -> subprocess.Popen[str]:
    """The cleaner of a new home.  Its file has the lock before another session can see it."""
    unseen = home / f"{CLEANER}.new"
    lock = os.open(unseen, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    unseen.rename(home / CLEANER)
    return _start(home, lock)


def _take(lock: int) -> bool:
    """Take the lock of a home; False when a cleaner has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(home: Path, lock: int) -> subprocess.Popen[str]:
    """A cleaner that inherits the lock; only it holds ``lock`` afterwards."""
    try:
        cleaner = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(home)],
            cwd=CHECKOUT,
            env={**os.environ, "STORLETS_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            pass_fds=[lock],
        )
        os.truncate(lock, 0)
        os.pwrite(lock, str(cleaner.pid).encode("ascii"), 0)
    finally:
        os.close(lock)
    return cleaner
