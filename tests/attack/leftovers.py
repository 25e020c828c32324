"""What an attack leaves behind: processes, mounts, descriptors, control groups, files, escapes in
logs, changed objects.

:func:`take` before, :func:`left` after; both look from the host, with nothing of ours asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.host import Host, Sandbox, links_of

CGROUPS: Final = Path("/sys/fs/cgroup")
DAEMONS: Final = ("proxy", "object-1", "object-2", "sandboxd")
LOGS: Final = (*DAEMONS, "account-1", "container-1")
#: Terminal escapes, and the one-character forms of them; the rest of the control characters but
#: line ends.
ESCAPES: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
#: The engine's clients keep ten connections each at hand, the more the more containers came and
#: went at a time, and each
#: server keeps its own to sandboxd: only more than so many is a leak.
KEPT_CONNECTIONS: Final = 40
#: Sockets of a supervisor besides two for each worker: listening ones, its control connection.
ALLOWED_SOCKETS: Final = 8
#: What a supervisor has of its own.
AT_REST: Final = Counter({"object or pipe": 2})
#: Runs that sign themselves leave a page each there on purpose; what fills a scratch is far beyond.
SCRATCH_SLACK: Final = 1 << 20
_METADATA: Final = "user.swift.metadata"


@dataclass(frozen=True)
class State:
    """A look at the host."""

    pids: dict[str, int | None]
    descriptors: dict[str, Counter[str]]
    supervisors: dict[str, Counter[str]]
    mounts: list[str]
    files: set[str]
    groups: set[str]
    scratch: dict[str, int]
    logs: dict[str, int]


def take(host: Host) -> State:
    """The state now."""
    sandboxes = host.sandboxes()
    return State(
        pids={name: host.cluster.process(name).pid for name in DAEMONS},
        descriptors={name: _descriptors(host, name, len(sandboxes)) for name in DAEMONS},
        supervisors={one.container: supervisor_descriptors(host, one) for one in sandboxes},
        mounts=host.mounts(),
        files=set(host.temporary_code()) | set(host.run_sockets()) | set(_host_scratch()),
        groups=stale_groups(host, sandboxes),
        scratch={one.container: scratch_bytes(one) for one in sandboxes},
        logs={name: _size(host.cluster.process(name).log) for name in LOGS},
    )


def left(host: Host, before: State, seconds: float = 60) -> list[str]:
    """What is there that was not; waits until there is nothing, or for ``seconds``: a neighbour's
    requests come and go meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        found = list(_differences(host, before))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.25)


def _differences(host: Host, before: State) -> Iterator[str]:
    yield from (f"process {name}" for name in strays(host))
    yield from (f"container {name[:12]}" for name in host.dead_containers())
    now = take(host)
    for name, counts in now.descriptors.items():
        if now.pids[name] == before.pids[name] and (more := counts - before.descriptors[name]):
            yield f"descriptors of {name}: {dict(more)}"
    for container, counts in now.supervisors.items():
        if more := counts - before.supervisors.get(container, AT_REST):
            yield f"descriptors of a supervisor: {dict(more)}"
    yield from (f"mount {point}" for point in now.mounts if point not in before.mounts)
    yield from (f"file {path}" for path in sorted(now.files - before.files))
    yield from (f"control group {path}" for path in sorted(now.groups - before.groups))
    for container, size in now.scratch.items():
        if size > before.scratch.get(container, 0) + SCRATCH_SLACK:
            yield f"{size} bytes in a scratch"
    for name in LOGS:
        yield from (
            f"escape in the log of {name}: {line!r}"
            for line in _escapes(host, name, before.logs[name])
        )
    for name in (*DAEMONS, "account-1", "container-1"):
        if not host.cluster.is_running(name):
            yield f"{name} has ended"


def _descriptors(host: Host, name: str, sandboxes: int) -> Counter[str]:
    """Connections, pipes, memory files and objects; sandboxd keeps connections to each sandbox and
    to the engine."""
    counts = host.descriptors(name)
    if name == "sandboxd":
        counts["socket"] = max(0, counts["socket"] - sandboxes - KEPT_CONNECTIONS)
    return +counts


def supervisor_descriptors(host: Host, sandbox: Sandbox) -> Counter[str]:
    """What process 1 of a sandbox holds of invocations: their pipes and connections, memory files,
    objects.

    A worker at rest has one channel to it and a memory file of what was printed; each group one
    listening socket.
    """
    links = links_of(sandbox.pid)
    workers = sum(process.parent == sandbox.pid for process in host.inside(sandbox))
    objects = sum("/disks/" in link or link.startswith("pipe:") for link in links)
    sockets = sum(link.startswith("socket:") for link in links)
    # Listening sockets, the control connection and what workers may have: beyond that there is a
    # leak.
    return +Counter(
        {"object or pipe": objects, "socket": max(0, sockets - 2 * workers - ALLOWED_SOCKETS)}
    )


def strays(host: Host) -> list[str]:
    """What in the sandboxes is not a worker at rest: strays, who computes, and who shares a pipe
    with a server."""
    served = {
        link
        for name in DAEMONS
        for link in links_of(host.cluster.process(name).pid or 0)
        if link.startswith("pipe:")
    }
    return [
        f"{process.name} ({process.state}) of {sandbox.account}"
        for sandbox in host.sandboxes()
        for process in host.inside(sandbox)
        if served & set(links_of(process.pid))
        or process.state in "RDT"
        or process.parent != sandbox.pid
    ]


def stale_groups(host: Host, sandboxes: list[Sandbox]) -> set[str]:
    """Control groups below the cluster's own that belong to no running sandbox, and groups of
    storlets without a process."""
    running = {one.container for one in sandboxes}
    found = set()
    for group in _groups(host.node_id):
        container = re.search(r"[0-9a-f]{64}", str(group))
        if container is None:
            continue
        if container[0] not in running:
            found.add(str(group))
    return found


def _groups(node_id: str) -> Iterator[Path]:
    for tree in (CGROUPS, *CGROUPS.iterdir()) if CGROUPS.is_dir() else ():
        for parent in tree.glob(f"*{node_id}*"):
            for folder, _, _ in os.walk(parent):
                yield Path(folder)


def scratch_bytes(sandbox: Sandbox) -> int:
    """How much of a sandbox's /tmp is in use."""
    with contextlib.suppress(OSError):
        usage = os.statvfs(f"/proc/{sandbox.pid}/root/tmp")
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    return 0


def _host_scratch() -> list[str]:
    """Files of sandboxes' making in the host's own /tmp: there is no way to put one there."""
    return [str(path) for stem in ("filler-*", "hard", "linked", "donated", "go-*", "count-*") for path in Path("/tmp").glob(stem)]  # fmt: skip


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _escapes(host: Host, name: str, start: int) -> list[bytes]:
    with contextlib.suppress(FileNotFoundError), host.cluster.process(name).log.open("rb") as file:
        file.seek(start)
        return [line[:200] for line in file.read().splitlines() if ESCAPES.search(line)][:3]
    return []


# --- objects --------------------------------------------------------------------------------------


def objects_of(host: Host, account: str) -> dict[str, dict[str, Any]]:
    """Every replica of an account's data on disk: bytes, attributes, mode, owner and times, by
    path.

    The mode without what it gives to others: the object filter takes that away before it donates a
    file.
    """
    found = {}
    for path in Path(host.cluster.home, "disks").rglob("*.data"):
        with contextlib.suppress(OSError):
            attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
            if f"/{account}/data/".encode() not in b"".join(attributes.values()):
                continue
            status = path.stat()
            found[str(path)] = {
                "bytes": hashlib.sha256(path.read_bytes()).hexdigest(), "attributes": attributes, "mode": oct(status.st_mode & ~0o007),
                "owner": (status.st_uid, status.st_gid), "links": status.st_nlink, "changed": status.st_mtime_ns,
            }  # fmt: skip
    return found


def quarantined(host: Host) -> list[str]:
    """What Swift's auditor has put aside as damaged."""
    return [str(path) for path in Path(host.cluster.home, "disks").rglob("quarantined/*/*")]
