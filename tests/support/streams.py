"""The streams of invocations: pairs of Unix sockets, one end for a server and one for a worker.

Swift's processes make them, so the host's kernel tables list both ends.  Sockets that a storlet
makes belong to the network namespace of its sandbox and are not listed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_STREAM: Final = "0001"


def listed() -> set[str]:
    """Links in ``/proc/<pid>/fd`` of all stream sockets of the host."""
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return {f"socket:[{words[6]}]" for line in lines if (words := line.split())[4] == _STREAM}
