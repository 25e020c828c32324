"""The node's own view: the sandboxes that sandboxd reports and the resources of their processes."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storlet_daemon.protocol import framing, messages
from tests.support.cluster import Cluster

_ANSWER_SECONDS = 60.0


class Node:
    """Client of a cluster's sandboxd."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = str(cluster.run_dir / "sandboxd.sock")

    def request(self, request: messages.Message) -> messages.Message:
        """Send one request; return the reply."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
            control.settimeout(_ANSWER_SECONDS)
            control.connect(self._path)
            framing.send(control, request)
            received = framing.receive(control)
            if received is None:
                raise RuntimeError("storlet-sandboxd ended before it answered")
            answer: messages.Message = received.message(messages.NODE_ANSWERS)
            return answer

    def sandboxes(self) -> list[messages.Sandbox]:
        """All sandboxes, including pre-warmed ones."""
        answer = self.request(messages.AskNodeStatus())
        if not isinstance(answer, messages.NodeStatus):
            raise TypeError(f"storlet-sandboxd answered {answer}")
        return list(answer.sandboxes)

    def of(self, account: str) -> messages.Sandbox | None:
        """The running sandbox of an account."""
        found = [
            s
            for s in self.sandboxes()
            if s.account == account and s.container and s.state == "running"
        ]
        return found[0] if found else None

    def wait_for_spares(self, count: int, seconds: float) -> bool:
        """Wait until ``count`` unassigned sandboxes run; return True if they do."""
        return wait(
            lambda: len([s for s in self.sandboxes() if s.state == "spare"]) >= count, seconds
        )


def wait(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until ``condition`` holds, with a few checks a second; return True if it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.25)
    return True


def processes_of(container: str) -> list[int]:
    """The processes of a Docker container, by their control groups."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if container in (entry / "cgroup").read_text(encoding="ascii"):
                found.append(int(entry.name))
    return found


def pss_bytes(pids: list[int], *, own: bool = False) -> int:
    """Proportional set size of processes: shared memory counts in proportion.

    ``own`` leaves out file pages: a sandbox's share of them shrinks with the number of sandboxes of
    the same image.
    """
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss_Anon:" if own else "Pss:"):
                total += int(line.split()[1]) * 1024
    return total


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds of every process at a moment."""

    at: float
    seconds: dict[int, tuple[str, float]]

    @classmethod
    def now(cls) -> CpuTimes:
        tick = os.sysconf("SC_CLK_TCK")
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                name, _, rest = (
                    (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
                )
                words = rest.split()
                found[int(entry.name)] = (
                    name.partition("(")[2],
                    (int(words[11]) + int(words[12])) / tick,
                )
        return cls(time.monotonic(), found)

    def busiest(
        self, before: CpuTimes, names: dict[int, str], count: int = 3
    ) -> list[tuple[str, float]]:
        """The processes that used most CPU since ``before``, as shares of one CPU; ``names`` maps
        pids to names."""
        wall = self.at - before.at
        shares = [
            (names.get(pid, name), (used - before.seconds.get(pid, ("", 0.0))[1]) / wall)
            for pid, (name, used) in self.seconds.items()
        ]
        return sorted(shares, key=lambda item: -item[1])[:count]


def names_of(cluster: Cluster) -> dict[int, str]:
    """The names of a cluster's processes and of the benchmark itself."""
    named = {
        item["pid"]: str(item["name"]) for item in cluster.description["processes"] if item["pid"]
    }
    return {**named, os.getpid(): "the benchmark's client"}
