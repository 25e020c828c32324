"""Leftovers of an attack: processes, mounts, descriptors, control groups, files, terminal escapes
in logs, changed objects.

:func:`take` before, :func:`left` after; both look from the host, with nothing of ours asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support import sock_diag
from tests.support.host import Host, Process, Sandbox, all_processes, links_of, stream_links

CGROUPS: Final = Path("/sys/fs/cgroup")
DAEMONS: Final = ("proxy", "object-1", "object-2", "sandboxd")
LOGS: Final = (*DAEMONS, "account-1", "container-1")
#: Terminal escapes in both forms, and all other control characters except line ends.
ESCAPES: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
#: Docker's client library keeps up to ten connections each, depending on how many Docker containers
#: were created at a time, and each server keeps connections to sandboxd: only more connections than
#: this are a leak.
KEPT_CONNECTIONS: Final = 40
#: A supervisor's sockets besides two for each worker and one for each worker group: the control
#: connection, and one that it is about to hand over.
ALLOWED_SOCKETS: Final = 2
#: Runs with a key intentionally leave one page each; an attack on the scratch leaves far more.
SCRATCH_SLACK: Final = 1 << 20
_METADATA: Final = "user.swift.metadata"


@dataclass(frozen=True)
class State:
    """A snapshot of the host."""

    pids: dict[str, int | None]
    descriptors: dict[str, Counter[str]]
    supervisors: dict[str, Counter[str]]
    mounts: list[str]
    files: set[str]
    groups: set[str]
    scratch: dict[str, int]
    logs: dict[str, int]


def take(host: Host) -> State:
    """Take a snapshot."""
    return _state(host, host.sandboxes(), all_processes())


def _state(host: Host, sandboxes: list[Sandbox], processes: Mapping[int, Process]) -> State:
    return State(
        pids={name: host.cluster.process(name).pid for name in DAEMONS},
        descriptors=_descriptors(host, len(sandboxes)),
        supervisors={
            one.container: supervisor_descriptors(host, one, processes) for one in sandboxes
        },
        mounts=host.mounts(),
        files=set(host.temporary_code()) | set(host.run_sockets()) | set(_host_scratch()),
        groups=stale_groups(host, sandboxes),
        scratch={one.container: scratch_bytes(one) for one in sandboxes},
        logs={name: _size(host.cluster.process(name).log) for name in LOGS},
    )


def left(host: Host, before: State, seconds: float = 60) -> list[str]:
    """New resources since ``before`` that stay.

    Looks again and again, for up to ``seconds``, until none is left that was there each time: a
    neighbour's requests use resources meanwhile, and on a busy machine there is always one.
    """
    deadline = time.monotonic() + seconds
    found = set(_differences(host, before))
    while found and time.monotonic() <= deadline:
        time.sleep(0.1)
        found &= set(_differences(host, before))
    return sorted(found)


def _differences(host: Host, before: State) -> Iterator[str]:
    """A line for each resource, the same one as long as the resource exists."""
    sandboxes, processes = host.sandboxes(), all_processes()
    yield from (f"process {name}" for name in _strays(host, sandboxes, processes))
    yield from (f"container {name[:12]}" for name in host.dead_containers())
    now = _state(host, sandboxes, processes)
    for name, counts in now.descriptors.items():
        if now.pids[name] == before.pids[name] and (more := counts - before.descriptors[name]):
            yield from _numbered(name, more)
    for container, counts in now.supervisors.items():
        if more := counts - before.supervisors.get(container, Counter()):
            yield from _numbered(f"the supervisor of {container[:12]}", more)
    yield from (f"mount {point}" for point in now.mounts if point not in before.mounts)
    yield from (f"file {path}" for path in sorted(now.files - before.files))
    yield from (f"control group {path}" for path in sorted(now.groups - before.groups))
    for container, size in now.scratch.items():
        if size > before.scratch.get(container, 0) + SCRATCH_SLACK:
            yield f"files in the scratch directory of {container[:12]}"
    for name in LOGS:
        yield from (
            f"escape in the log of {name}: {line!r}"
            for line in _escapes(host, name, before.logs[name])
        )
    for name in (*DAEMONS, "account-1", "container-1"):
        if not host.cluster.is_running(name):
            yield f"{name} has ended"


def _numbered(owner: str, descriptors: Counter[str]) -> Iterator[str]:
    for kind, count in descriptors.items():
        yield from (f"descriptor of {owner}: {kind} {number + 1}" for number in range(count))


def _descriptors(host: Host, sandboxes: int) -> dict[str, Counter[str]]:
    """Connections, pipes, memory files and objects of the daemons; sandboxd keeps connections to
    each sandbox and to the Docker engine."""
    found = host.descriptors(*DAEMONS)
    sockets = found["sandboxd"]["socket"] - sandboxes - KEPT_CONNECTIONS
    found["sandboxd"]["socket"] = max(0, sockets)
    return {name: +counts for name, counts in found.items()}


def supervisor_descriptors(
    host: Host, sandbox: Sandbox, processes: Mapping[int, Process]
) -> Counter[str]:
    """The invocations' descriptors in process 1 of a sandbox: streams, connections, memory files,
    objects.

    An idle worker has one channel to the supervisor and a memory file of printed text; each worker
    group has one listening socket.
    """
    links = links_of(sandbox.pid)
    workers = sum(process.parent == sandbox.pid for process in processes.values())
    objects = sum("/disks/" in link for link in links)
    sockets = sum(link.startswith("socket:") for link in links)
    # A group whose worker has ended keeps its listening socket.
    groups = len(host.group_sockets(sandbox))
    spare = sockets - groups - 2 * workers - ALLOWED_SOCKETS
    return +Counter({"object": objects, "socket": max(0, spare)})


def _strays(host: Host, sandboxes: list[Sandbox], processes: Mapping[int, Process]) -> list[str]:
    """Processes in the sandboxes that are not idle workers: strays, processes that compute, and
    processes that share a stream with a server."""
    peers = sock_diag.peers()
    pids = (host.cluster.process(name).pid or 0 for name in DAEMONS)
    served = {peers[link] for link in stream_links(*pids) if link in peers}
    return [
        f"{process.pid} ({process.name}) of {sandbox.account}"
        for sandbox in sandboxes
        for process in host.inside(sandbox, processes)
        if served & set(links_of(process.pid))
        or process.state in "RDT"
        or process.parent != sandbox.pid
    ]


def stale_groups(host: Host, sandboxes: list[Sandbox]) -> set[str]:
    """Control groups of the cluster without a running sandbox, and groups of storlets without a
    process."""
    running = {one.container for one in sandboxes}
    return {
        str(group)
        for group in _groups(host.node_id, running)
        if re.search(r"[0-9a-f]{64}", str(group))
    }


def _groups(node_id: str, running: set[str]) -> Iterator[Path]:
    """Control groups of the cluster, without those of the ``running`` containers."""
    for tree in (CGROUPS, *CGROUPS.iterdir()) if CGROUPS.is_dir() else ():
        for parent in tree.glob(f"*{node_id}*"):
            for folder, below, _ in os.walk(parent):
                below[:] = [name for name in below if name not in running]
                yield Path(folder)


def scratch_bytes(sandbox: Sandbox) -> int:
    """The bytes in use in a sandbox's /tmp."""
    with contextlib.suppress(OSError):
        usage = os.statvfs(f"/proc/{sandbox.pid}/root/tmp")
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    return 0


def _host_scratch() -> list[str]:
    """Files created by sandboxes in the host's /tmp: a sandbox must not be able to create one."""
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

    The mode without the permission bits of others: the object filter removes them before it donates
    a file.
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
    """The objects that Swift's auditor has quarantined."""
    return [str(path) for path in Path(host.cluster.home, "disks").rglob("quarantined/*/*")]
