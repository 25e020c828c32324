"""The node seen from its own side: what sandboxd says of its sandboxes, and what their processes
use."""

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
    """Asks sandboxd of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = str(cluster.run_dir / "sandboxd.sock")

    def ask(self, request: messages.Message) -> messages.Message:
        """One request, one answer."""
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
        """All of them, spare ones included."""
        answer = self.ask(messages.AskNodeStatus())
        if not isinstance(answer, messages.NodeStatus):
            raise TypeError(f"storlet-sandboxd answered {answer}")
        return list(answer.sandboxes)

    def of(self, account: str) -> messages.Sandbox | None:
        """The sandbox of an account that runs."""
        found = [
            s
            for s in self.sandboxes()
            if s.account == account and s.container and s.state == "running"
        ]
        return found[0] if found else None

    def wait_for_spares(self, count: int, seconds: float) -> bool:
        """Whether so many unassigned sandboxes run, waiting for them."""
        return wait(
            lambda: len([s for s in self.sandboxes() if s.state == "spare"]) >= count, seconds
        )


def wait(condition: Callable[[], object], seconds: float) -> bool:
    """Whether ``condition`` came true; looks a few times a second."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.25)
    return True


def processes_of(container: str) -> list[int]:
    """The processes of a container, by their control groups."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if container in (entry / "cgroup").read_text(encoding="ascii"):
                found.append(int(entry.name))
    return found


def pss_bytes(pids: list[int], *, own: bool = False) -> int:
    """Proportional set size of processes: what is shared counts by parts.

    ``own`` leaves out pages of files, of which a sandbox has the smaller a part the more others run
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
        """Who used most since ``before``, with the share of one CPU; ``names`` says what a pid is
        for people."""
        wall = self.at - before.at
        shares = [
            (names.get(pid, name), (used - before.seconds.get(pid, ("", 0.0))[1]) / wall)
            for pid, (name, used) in self.seconds.items()
        ]
        return sorted(shares, key=lambda item: -item[1])[:count]


def names_of(cluster: Cluster) -> dict[int, str]:
    """What the processes of a cluster are called, and the benchmark itself."""
    named = {
        item["pid"]: str(item["name"]) for item in cluster.description["processes"] if item["pid"]
    }
    return {**named, os.getpid(): "the benchmark's client"}
