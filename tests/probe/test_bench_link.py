"""The link of the benchmark ends with its process, or with the next link."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench.link import MBIT, Link
from tests.support.cluster import CHECKOUT

_KILLED = """
import signal
from tests.bench.link import MBIT, Link
with Link(MBIT):
    print("up", flush=True)
    signal.pause()
"""


def _links() -> set[str]:
    return {each.name for each in Path("/sys/class/net").glob("bo-*")}


def test_the_link_of_a_killed_process_does_not_stay() -> None:
    command = [sys.executable, "-c", _KILLED]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.kill()
    left = f"bo-{process.pid:x}"
    assert left in _links()
    with Link(MBIT):
        assert left not in _links()
    assert not Path(f"/run/netns/bench-{process.pid:x}").exists()
