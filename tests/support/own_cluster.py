"""A cluster that ends with the session that started it, even if that session is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.cluster import CHECKOUT, Cluster, bring_up

if TYPE_CHECKING:
    from collections.abc import Iterator

PARENT: Final = Path("/var/tmp")
PREFIX: Final = "storlets-"
#: A file of the home: process id of its cleaner.
CLEANER: Final = "cleaner.pid"
#: Waits for the end of its standard input, which only the session holds open.
_SCRIPT: Final = """
import shutil, subprocess, sys
sys.stdin.read()
command = [sys.executable, "-m", "storlet_middleware.aio", "down", "--purge"]
done = subprocess.run(command, check=False)
shutil.rmtree(sys.argv[1], ignore_errors=True)
sys.exit(done.returncode)
"""


@contextmanager
def own_cluster(name: str = "", **choices: str) -> Iterator[Cluster]:
    """A new cluster for the length of a block; ``choices`` are those of :func:`bring_up`.

    A process of its own, the cleaner, takes the cluster down and deletes its home at the end of
    the block, or when this process ends.  Homes whose cleaner has ended too, because the machine
    was switched off, are removed first.
    """
    remove_orphans()
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}", dir=PARENT))
    cleaner = _start_cleaner(home)
    try:
        yield bring_up(home, **choices)
    finally:
        said, _ = cleaner.communicate()
        if cleaner.returncode:
            raise AssertionError(f"the cluster in {home} cannot be taken down:\n{said}")


def remove_orphans() -> None:
    """Take down clusters of earlier sessions that have neither a session nor an cleaner."""
    for file in PARENT.glob(f"{PREFIX}*/{CLEANER}"):
        home = file.parent
        if not _has_cleaner(home):
            _start_cleaner(home).communicate()


def _start_cleaner(home: Path) -> subprocess.Popen[str]:
    cleaner = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(home)],
        cwd=CHECKOUT,
        env={**os.environ, "STORLETS_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    (home / CLEANER).write_text(str(cleaner.pid), encoding="ascii")
    return cleaner


def _has_cleaner(home: Path) -> bool:
    try:
        pid = (home / CLEANER).read_text(encoding="ascii")
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        # A home without the file has just been deleted.
        return not home.exists()
    return os.fsencode(home) in arguments
