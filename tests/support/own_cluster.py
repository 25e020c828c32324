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
#: A file of the home: process id of its undertaker.
UNDERTAKER: Final = "undertaker.pid"
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

    A process of its own, the undertaker, takes the cluster down and deletes its home at the end of
    the block, or when this process ends.  Homes whose undertaker has ended too, because the machine
    was switched off, are removed first.
    """
    remove_orphans()
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}", dir=PARENT))
    undertaker = _start_undertaker(home)
    try:
        yield bring_up(home, **choices)
    finally:
        said, _ = undertaker.communicate()
        if undertaker.returncode:
            raise AssertionError(f"the cluster in {home} cannot be taken down:\n{said}")


def remove_orphans() -> None:
    """Take down clusters of earlier sessions that have neither a session nor an undertaker."""
    for file in PARENT.glob(f"{PREFIX}*/{UNDERTAKER}"):
        home = file.parent
        if not _has_undertaker(home):
            _start_undertaker(home).communicate()


def _start_undertaker(home: Path) -> subprocess.Popen[str]:
    undertaker = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(home)],
        cwd=CHECKOUT,
        env={**os.environ, "STORLETS_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    (home / UNDERTAKER).write_text(str(undertaker.pid), encoding="ascii")
    return undertaker


def _has_undertaker(home: Path) -> bool:
    try:
        pid = (home / UNDERTAKER).read_text(encoding="ascii")
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        # A home without the file has just been deleted.
        return not home.exists()
    return os.fsencode(home) in arguments
