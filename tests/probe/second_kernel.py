"""Script of ``test_control_groups_v2.py``: runs in a second kernel with version 2 only.

It is a child of process 1.  It does by hand what Docker and runc do for a container, calls
sandboxd's control group classes, and prints the kernel's state as a line ``RESULT {..}``.  It uses
only the standard library and our own modules.  All file systems except /proc and /sys are
read-only.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from storlet_daemon.protocol.messages import Resources
from storlet_middleware.config import NodeSection
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups

ROOT = Path("/sys/fs/cgroup")
NODE = "/storlets-second"
LIMITS = Resources(memory_bytes=64 << 20, cpus=0.5, processes=20)

#: Process 1 of the "sandbox": two workers, each allocates 150 MiB on request.
SUPERVISOR = """
import subprocess, sys
worker = "import sys, time; sys.stdin.readline(); x = bytearray(150 << 20); print('survived', flush=True); time.sleep(100)"
workers = [subprocess.Popen([sys.executable, "-c", worker], stdin=subprocess.PIPE) for _ in range(2)]
print(*[worker.pid for worker in workers], flush=True)
sys.stdin.readline()
workers[0].stdin.write(b"go\\n")
workers[0].stdin.flush()
print(workers[0].wait(), flush=True)
sys.stdin.readline()
"""


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else "absent"


def main() -> dict[str, object]:
    node_group = NodeCgroup(NODE, Hierarchy())
    groups, node = WorkerCgroups(), ROOT / NODE.lstrip("/")
    found: dict[str, object] = {"faults": node_group.make(NodeSection(0.75, 1.5, 256, 4096))}
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.weight", "cpu.max"):
        found[f"node {name}"] = read(node / name)
    found["host memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    (node / "cgroup.subtree_control").write_text("+cpu +memory +pids")
    container = node / "container"
    container.mkdir()
    join = f'echo $$ > {container}/cgroup.procs; exec unshare --cgroup --pid --fork --mount-proc python3 -c "$0"'
    with subprocess.Popen(
        ["sh", "-c", join, SUPERVISOR], stdin=-1, stdout=-1, text=True
    ) as sandbox:
        assert sandbox.stdin is not None
        assert sandbox.stdout is not None
        first, second = (int(word) for word in sandbox.stdout.readline().split())
        supervisor = int(
            Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children").read_text().split()[0]
        )
        directory = groups.move_worker(supervisor, first, "ab" * 32, LIMITS)
        found["moved"] = [directory, groups.move_worker(supervisor, second, "cd" * 32, LIMITS)]
        found["moved again"] = groups.move_worker(supervisor, second, "cd" * 32, LIMITS)
        found["strangers"] = [
            groups.move_worker(supervisor, 99, "ef" * 32, LIMITS),
            groups.move_worker(supervisor, 1, "ef" * 32, LIMITS),
        ]
        for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
            found[name] = read(container / directory / name)
        found["processes of the container's group"] = read(container / "cgroup.procs")
        found["supervisor"] = read(Path(f"/proc/{supervisor}/cgroup"))
        sandbox.stdin.write("\n")
        sandbox.stdin.flush()
        found["worker beyond its memory"] = sandbox.stdout.readline().strip()
        found["kills"] = dict(
            line.split() for line in read(container / directory / "memory.events").splitlines()
        )["oom_kill"]
        groups.remove_group(supervisor, "ab" * 32)
        groups.remove_others(supervisor, [])
        found["groups after"] = sorted(path.name for path in container.iterdir() if path.is_dir())
        os.kill(supervisor, 9)
    # The kernel releases a group with a delay after its last process has died.
    give_up = time.monotonic() + 10
    while node.exists() and time.monotonic() < give_up:
        node_group.remove()
        time.sleep(0.05)
    found["node after"] = node.exists()
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()), flush=True)
