"""The host's view of a cluster: sandboxes, processes, descriptors, sockets, mounts, control groups,
logs.

This module signals only processes of the cluster: pids come from ``cluster.json``, or from Docker
for containers with the cluster's label.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from storlet_middleware.aio.docker_api import DockerApi
from storlet_middleware.aio.progress import AioError
from tests.support import sock_diag, streams
from tests.support.cluster import Cluster
from tests.support.http import Answer
from tests.support.waiting import wait_for

SERVERS = ("proxy", "object-1", "object-2")
KEY_LENGTH = 15
#: The state of a connected socket in /proc/net/unix.
CONNECTED = "03"


def new_key() -> str:
    """A key for a run, short enough to be the name of a process."""
    return f"g{uuid.uuid4().hex}"[:KEY_LENGTH]


@dataclass(frozen=True)
class Sandbox:
    """A running container of the cluster.

    :param pid: its process 1 as the host numbers it.
    :param key: the name of its folder of sockets.
    """

    container: str
    account: str
    pid: int
    key: str


@dataclass(frozen=True)
class Process:
    """One process of the host."""

    pid: int
    parent: int
    name: str
    state: str
    started: int


def read_process(pid: int) -> Process | None:
    """``None`` when there is no such process."""
    try:
        # Tests read it for all processes hundreds of times: a Path takes as long as the file.
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split(maxsplit=20)
    return Process(pid, int(fields[1]), name, fields[0], int(fields[19]))


def all_processes() -> dict[int, Process]:
    names = os.listdir("/proc")  # noqa: PTH208  likewise
    found = (read_process(int(name)) for name in names if name.isdigit())
    return {
        process.pid: process
        for process in found
        if process is not None and process.state not in "ZX"
    }


def is_alive(process: Process) -> bool:
    """Whether exactly this process lives; a zombie does not."""
    now = read_process(process.pid)
    return now is not None and now.state not in "ZX" and now.started == process.started


def _has_root(process: Process, roots: set[int], found: dict[int, Process]) -> bool:
    """Whether one of ``roots`` is an ancestor of ``process``."""
    parent = found.get(process.parent)
    return process.parent in roots or (parent is not None and _has_root(parent, roots, found))


class _Connections:
    """The connections of TCP and of Unix sockets on this machine: one look for several servers, as
    the kernel takes milliseconds for each."""

    def __init__(self, memcached: int) -> None:
        # A listening socket has no other end.
        self._left_out = {memcached, 0}
        self._tcp = list(sock_diag.tcp_sockets())
        lines = Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]
        unix = (line.split(maxsplit=7) for line in lines)
        self._unix = {f"socket:[{fields[6]}]" for fields in unix if fields[5] == CONNECTED}

    def of(self, links: list[str]) -> set[str]:
        """Those of a process with these ``links``. Permanent connections of a server are left out:
        memcached, syslog, and the socket pair by which eventlet's threads wake its loop."""
        own = set(links)
        mine = {end for link, end, _ in self._tcp if link in own}
        return self._unix | {
            link
            for link, _, other in self._tcp
            if other[0] not in self._left_out and other not in mine
        }


def _by_kind(links: list[str], connections: set[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for link in links:
        if link.startswith("socket:"):
            found["socket"] += link in connections
        elif link.startswith("pipe:"):
            found["pipe"] += 1
        elif link.startswith("/memfd:"):
            found["memfd"] += 1
        elif "/disks/" in link:
            found["object"] += 1
    return found


class Host:
    """The machine that a cluster runs on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node_id = cluster.node_id
        #: Those that were seen running, by their Docker container, which never runs again.
        self._seen: dict[str, Sandbox] = {}

    # --- sandboxes --------------------------------------------------------------------------------

    def docker(self, *arguments: str) -> str:
        command = ["docker", "-H", self.cluster.docker_host, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def sandboxes(self, account: str = "") -> list[Sandbox]:
        """Running ones, of one account or of all."""
        labels = [f"org.storlets.account={account}"] if account else []
        found = []
        for container in self._containers(*labels):
            # A Docker container that ends meanwhile is missing from the result, as it should be.
            with contextlib.suppress(RuntimeError):
                if sandbox := self._seen.get(container["Id"]) or self._looked_at(container["Id"]):
                    found.append(sandbox)
        return found

    def remove(self, sandbox: Sandbox) -> None:
        """Kill a sandbox and remove its container."""
        DockerApi(self.cluster.docker_host).remove(sandbox.container)

    def _looked_at(self, container: str) -> Sandbox | None:
        """The sandbox of a Docker container if it runs."""
        one = self.inspect(container)
        if not one["State"]["Running"] or not one["State"]["Pid"]:
            return None
        said = one["Config"]["Labels"]
        owner, key = said["org.storlets.account"], said["org.storlets.key"]
        self._seen[container] = Sandbox(container, owner, one["State"]["Pid"], key)
        return self._seen[container]

    def _containers(self, *labels: str, states: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Containers of the cluster with ``labels``, in one of ``states``; the running ones."""
        filters = {"label": [f"org.storlets={self.node_id}", *labels]}
        if states:
            filters["status"] = list(states)
        query = urlencode({"all": int(bool(states)), "filters": json.dumps(filters)})
        found: list[dict[str, Any]] = self._engine(f"/containers/json?{query}")
        return found

    def _engine(self, path: str) -> Any:
        """The engine's answer to a GET; starting the command ``docker`` takes longer."""
        try:
            return DockerApi(self.cluster.docker_host)._json("GET", path)
        except AioError as error:
            raise RuntimeError(path) from error

    def sandbox(self, account: str) -> Sandbox:
        """The only running sandbox of an account."""
        found = self.sandboxes(account)
        if len(found) != 1:
            raise AssertionError(f"{account} has {len(found)} sandboxes: {found}")
        return found[0]

    @staticmethod
    def inside(sandbox: Sandbox, processes: Mapping[int, Process] | None = None) -> list[Process]:
        """The processes of a sandbox but its process 1; among ``processes``, or those of now."""
        processes = all_processes() if processes is None else processes
        found, todo = [], [sandbox.pid]
        while todo:
            parent = todo.pop()
            for process in processes.values():
                if process.parent == parent:
                    found.append(process)
                    todo.append(process.pid)
        return found

    def run_named(
        self, key: str, seconds: float = 10, going: Future[Answer] | None = None
    ) -> Process:
        """Wait for the process of the run with ``key``; return it.

        :param going: the request that starts the run; if it ends first, the failure shows its
            response.
        """
        found: list[Process] = []

        def look() -> bool:
            is_over = going is not None and going.done()
            found[:] = self.runs_named(key)
            if going is not None and is_over and not found:
                raise AssertionError(f"no run named {key}: its request ended: {going.result()}")
            return bool(found)

        wait_for(look, seconds, f"a run named {key}")
        return found[0]

    @staticmethod
    def runs_named(key: str) -> list[Process]:
        return [process for process in all_processes().values() if process.name == key]

    def programs_named(self, account: str, name: str) -> list[Process]:
        """Processes of the account's sandboxes that execute ``name``."""
        pids = {sandbox.pid for sandbox in self.sandboxes(account)}
        found = all_processes()
        return [one for one in found.values() if one.name == name and _has_root(one, pids, found)]

    def server_of(self, worker: Process) -> str:
        """The Swift server that holds the other end of a worker's streams."""
        peers = sock_diag.peers()
        theirs = {peers[link] for link in stream_links(worker.pid) if link in peers}
        for name in SERVERS:
            pid = self.cluster.process(name).pid
            if pid is not None and theirs & set(links_of(pid)):
                return name
        raise AssertionError(f"no server shares a stream with {worker}")

    # --- servers ----------------------------------------------------------------------------------

    def kill_hard(self, name: str) -> int:
        return self.cluster.kill(name, signal.SIGKILL)

    @contextlib.contextmanager
    def started_again(self, *names: str) -> Iterator[None]:
        """Start these servers again at the end of the block."""
        try:
            yield
        finally:
            for name in names:
                if not self.cluster.is_running(name):
                    self.cluster.start(name)

    def has_own_engine(self) -> bool:
        """Whether the cluster's tooling started the Docker engine, and so its keeper restarts
        it."""
        return any(
            item["name"] == "dockerd" and item["pid"]
            for item in self.cluster.description["processes"]
        )

    def engine_pid(self) -> int | None:
        """Process id of the Docker engine that the tooling started. Clusters share it, and
        another's keeper may have started it since ``cluster.json`` was written."""
        for process in all_processes().values():
            with contextlib.suppress(OSError):
                if (
                    process.name == "dockerd"
                    and b"STORLETS_AIO=machine/"
                    in Path(f"/proc/{process.pid}/environ").read_bytes()
                ):
                    return process.pid
        return None

    def kill_daemon(self, name: str) -> int:
        """Kill sandboxd, or the engine when it is the tooling's; returns its pid."""
        if name == "sandboxd":
            return self.kill_hard(name)
        pid = self.engine_pid()
        if pid is None or not self.has_own_engine():
            raise AssertionError("the engine is not ours to kill")
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_back(self, name: str, old_pid: int, seconds: float = 60) -> None:
        """Wait until the keeper has brought a killed daemon back and it answers."""
        if name == "sandboxd":
            self.cluster.wait_restarted(name, old_pid, seconds)
            return
        wait_for(
            lambda: self.engine_pid() not in {None, old_pid} and self._engine_answers(),
            seconds,
            "the engine",
        )

    def _engine_answers(self) -> bool:
        try:
            self.docker("ps", "-q")
        except (RuntimeError, subprocess.TimeoutExpired):
            return False
        return True

    # --- leftovers --------------------------------------------------------------------------------

    def descriptors(self, *names: str) -> dict[str, Counter[str]]:
        """The open descriptors of servers by kind."""
        links = {name: links_of(self.cluster.process(name).pid or 0) for name in names}
        tables = _Connections(self.cluster.process("memcached").port or 0)
        return {name: _by_kind(found, tables.of(found)) for name, found in links.items()}

    def all_descriptors(self) -> dict[str, Counter[str]]:
        return self.descriptors(*SERVERS)

    def await_descriptors(self, before: dict[str, Counter[str]], seconds: float = 10) -> None:
        """Wait until no server has more of any kind than before."""

        def surplus() -> dict[str, Counter[str]]:
            return {
                name: now - before[name]
                for name, now in self.all_descriptors().items()
                if now - before[name]
            }

        try:
            wait_for(lambda: not surplus(), seconds, "descriptors to be closed")
        except AssertionError:
            raise AssertionError(
                f"descriptors that were not closed: {surplus()}; before: {before}"
            ) from None

    def run_sockets(self) -> list[str]:
        """Leftover names in the directories of sockets: temporary ones, and those of ended
        sandboxes."""
        run_dir = self.cluster.run_dir
        found = [str(path) for path in run_dir.rglob(".*")]
        keys = {one["Labels"].get("org.storlets.key") for one in self._containers()}
        for folder in ("s", "c"):
            found += [str(path) for path in (run_dir / folder).glob("*") if path.name not in keys]
        return found

    def group_sockets(self, sandbox: Sandbox) -> list[Path]:
        """The listening sockets of a sandbox's worker groups."""
        return list((self.cluster.run_dir / "s" / sandbox.key).glob("*.sock"))

    def temporary_code(self) -> list[str]:
        """Temporary files that a crash or leak left in the code cache.  (A lock is an empty file
        for the next fetch.)"""
        return [str(path) for path in (self.cluster.state_dir / "code").glob("*/.tmp-*")]

    def mounts(self) -> list[str]:
        """Mount points below the cluster's directories, as this process sees them."""
        places = (str(self.cluster.run_dir), str(self.cluster.state_dir), str(self.cluster.home))
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        return sorted(line.split()[4] for line in lines if line.split()[4].startswith(places))

    def dead_containers(self) -> list[str]:
        """Containers of the cluster that do not run."""
        states = ("exited", "dead", "created")
        return [str(one["Id"]) for one in self._containers(states=states)]

    def stray_groups(self) -> list[str]:
        """Control groups of the cluster's sandboxes that have no container any more."""
        running = {sandbox.container for sandbox in self.sandboxes()}
        tops = [
            *Path("/sys/fs/cgroup").glob(f"storlets-{self.node_id}"),
            *Path("/sys/fs/cgroup").glob(f"*/storlets-{self.node_id}"),
        ]
        return [
            str(path)
            for top in tops
            for path in top.iterdir()
            if path.is_dir() and path.name not in running
        ]

    # --- logs -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def new_log(self, *names: str) -> Iterator[Callable[[], str]]:
        """A function that returns what these processes logged since the block began."""
        starts = {name: self._log_size(name) for name in names}

        def read() -> str:
            text = ""
            for name, start in starts.items():
                log = self.cluster.process(name).log
                if self._log_size(name) >= start:
                    text += text_from(log, start)
                else:  # the keeper rotated the log
                    text += text_from(log.with_name(f"{log.name}.1"), start) + text_from(log, 0)
            return text

        yield read

    def _log_size(self, name: str) -> int:
        try:
            return self.cluster.process(name).log.stat().st_size
        except FileNotFoundError:
            return 0

    def code_dir(self, account: str) -> Path:
        """The directory of an account's code on this node."""
        source = [
            mount["Source"]
            for mount in self.inspect(self.sandbox(account).container)["Mounts"]
            if mount["Destination"] == "/var/lib/storlets"
        ]
        return Path(source[0])

    def inspect(self, container: str) -> dict[str, Any]:
        """The answer of ``docker inspect`` for a container."""
        value: dict[str, Any] = self._engine(f"/containers/{container}/json")
        return value

    @contextlib.contextmanager
    def tiny_disk_over(self, folder: Path, size: str) -> Iterator[None]:
        """Mount a small file system over ``folder``, which a test then fills."""
        owner = folder.stat()
        mode = stat.S_IMODE(owner.st_mode)
        options = f"size={size},uid={owner.st_uid},gid={owner.st_gid},mode={mode:o}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
        try:
            yield
        finally:
            end = time.monotonic() + 10
            while subprocess.run(
                ["umount", str(folder)], check=False, capture_output=True
            ).returncode:
                if time.monotonic() > end:
                    subprocess.run(["umount", "-l", str(folder)], check=True)
                    raise AssertionError(f"{folder} stayed in use")
                time.sleep(0.1)


def text_from(path: Path, start: int) -> str:
    """The text of a file from byte ``start``."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")


def links_of(pid: int) -> list[str]:
    """The targets of the descriptors of a process."""
    found = []
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        # Strings: tests read ten thousand links, and a Path takes longer than the kernel.
        for name in os.listdir(folder):  # noqa: PTH208
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"{folder}/{name}"))  # noqa: PTH115
    return found


def stream_links(*pids: int) -> list[str]:
    """The streams of invocations that processes hold."""
    listed = streams.listed()
    return [link for pid in pids for link in links_of(pid) if link in listed]


def busy(host: Host) -> list[str]:
    """Processes in sandboxes that are not idle workers: strays, and holders of an invocation's
    stream."""
    names = []
    sandboxes, processes, listed = host.sandboxes(), all_processes(), streams.listed()
    for sandbox in sandboxes:
        for process in host.inside(sandbox, processes):
            has_stream = bool(listed & set(links_of(process.pid)))
            if has_stream or process.state in "RDT" or process.parent != sandbox.pid:
                names.append(f"{process.name} ({process.state}) of {sandbox.account}")
    return names


def remove(path: Path) -> None:
    """Delete a folder or file of a test or of a killed server."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


NUMBERED = re.compile(rb"([0-9a-f]{16}) (\d{10})\n")


def check_numbered(body: bytes) -> int:
    """Count the complete lines of ``body``; raise if they are of two runs or one is missing.

    The last line may be cut, as on a broken connection.
    """
    lines = NUMBERED.findall(body)
    assert len(lines) * 28 + 28 > len(body), (
        f"something else is in the output: {body[:100]!r} ... {body[-100:]!r}"
    )
    assert len({nonce for nonce, _ in lines}) <= 1, "the output of two runs in one answer"
    assert [int(number) for _, number in lines] == list(range(len(lines))), "a piece is missing"
    return len(lines)
