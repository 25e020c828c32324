"""A Docker double made of child processes, with faults, and a node that receives requests over its
real socket."""

from __future__ import annotations

import asyncio
import atexit
import gc
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from storlet_daemon.protocol import framing, messages
from storlet_middleware import config as configuration
from storlet_middleware.metrics import Stats
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.control import Peer
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import (
    LABEL_ACCOUNT,
    LABEL_CLASS,
    LABEL_NODE,
    Container,
    Engine,
)
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    ImageMissing,
    MountFault,
    NameTaken,
)
from storlet_middleware.sandboxd.identity import Identities, Identity, UidRange
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Planner
from storlet_middleware.sandboxd.pool.pool import Pool
from storlet_middleware.sandboxd.self_test.gate import Gate
from storlet_middleware.sandboxd.server import Server
from storlet_middleware.sandboxd.statsd import NoStats
from storlet_middleware.sandboxd.threads import Threads

SUPERVISOR = Path(__file__).with_name("fake_supervisor.py")
#: Held while the process that starts supervisors starts one.
_STARTING = threading.Lock()


class Supervisor:
    """The process of a fake supervisor, with the methods of :class:`subprocess.Popen`."""

    def __init__(self, directory: str, behaviour: str) -> None:
        with _STARTING:
            starter = _starter()
            assert starter.stdin
            assert starter.stdout
            print(json.dumps([directory, behaviour]), file=starter.stdin, flush=True)
            self.pid = int(starter.stdout.readline())
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        return self._ended(0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, options: int) -> int | None:
        with self._lock:
            if self._code is None:
                pid, status = os.waitpid(self.pid, options)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
            return self._code


@cache
def _starter() -> subprocess.Popen[str]:
    """The process that starts supervisors."""
    command = [sys.executable, "-S", "-E", str(SUPERVISOR)]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(made.communicate)
    return made


@dataclass
class FakeContainer:
    """A container that is a process."""

    name: str
    body: Mapping[str, Any]
    process: Supervisor


@dataclass
class FakeDocker:
    """The state that outlives a sandboxd: Docker containers.  The switches make it fail."""

    containers: dict[str, FakeContainer] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_down: bool = False
    image: str | None = "sha256:one"
    missing_images: set[str] = field(default_factory=set)
    behaviour: str = "good"
    start_seconds: float = 0.0
    remove_fails: bool = False
    refused_removals: int = 0
    mount_fails: bool = False
    mounted: list[tuple[Path, int, str]] = field(default_factory=list)
    starts: int = 0
    #: In what every sandbox turns out to be weaker than configured.
    weaker: list[str] = field(default_factory=list)
    #: Behaviours of the sandboxes of single trust classes, and of ``spare`` ones.
    by_class: dict[str, str] = field(default_factory=dict)
    #: The requests of all sandboxes, also of those that have ended.
    bodies: list[Mapping[str, Any]] = field(default_factory=list)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill every supervisor; the containers stay, as dead ones do in Docker."""
        for container in list(self.containers.values()):
            container.process.send_signal(number)
            if number == signal.SIGKILL:
                container.process.wait()

    def end(self) -> None:
        """Leave no process behind."""
        for container in self.containers.values():
            container.process.kill()
            container.process.wait()


class FakeEngine(Engine):
    """The real wrapper's methods, each replaced by the same on processes."""

    def __init__(self, docker: FakeDocker) -> None:
        super().__init__("unix:///nowhere")
        self.docker = docker

    def host(self) -> Mapping[str, Any]:
        self._check()
        return {"MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True}

    def image_id(self, image: str) -> str:
        self._check()
        if self.docker.image is None or image in self.docker.missing_images:
            raise ImageMissing(f"the sandbox image {image} is not on this node")
        return self.docker.image

    def start(self, name: str, body: Mapping[str, Any]) -> str:
        self._check()
        with self.docker.lock:
            if any(container.name == name for container in self.docker.containers.values()):
                raise NameTaken(f"the name {name} is in use")
            self.docker.starts += 1
            time.sleep(self.docker.start_seconds)
            directory = body["HostConfig"]["Mounts"][0]["Source"]
            kind = body["Labels"][LABEL_CLASS] if body["Labels"][LABEL_ACCOUNT] else "spare"
            behaviour = self.docker.by_class.get(kind, self.docker.behaviour)
            container_id = hashlib.sha256(f"{name}{self.docker.starts}".encode()).hexdigest()
            started = Supervisor(directory, behaviour)
            self.docker.bodies.append(body)
            self.docker.containers[container_id] = FakeContainer(name, body, started)
            return container_id

    def remove(self, container_id: str) -> None:
        self._check()
        if self.docker.remove_fails:
            self.docker.refused_removals += 1
            raise EngineFault("device or resource busy")
        container = self.docker.containers.get(container_id)
        if container is not None:
            container.process.kill()
            container.process.wait()
            self.docker.containers.pop(container_id, None)

    def rename(self, container_id: str, name: str) -> None:
        self._check()
        self.docker.containers[container_id].name = name

    def find(self, name: str) -> Container | None:
        self._check()
        return next((c for c in self._all() if c.name == name), None)

    def ours(self, node_id: str) -> list[Container]:
        self._check()
        return [
            container for container in self._all() if container.labels.get(LABEL_NODE) == node_id
        ]

    def end_of(self, container_id: str) -> str | None:
        self._check()
        container = self.docker.containers.get(container_id)
        if container is None:
            return "the container was removed"
        code = container.process.poll()
        return None if code is None else f"exit code {code}"

    def _all(self) -> list[Container]:
        return [
            Container(key, c.name, c.body["Labels"], c.process.poll() is None, c.body["Image"], 1.0)
            for key, c in list(self.docker.containers.items())
        ]

    def _check(self) -> None:
        if self.docker.is_down:
            raise EngineUnavailable(
                "Docker at unix:///nowhere cannot be reached: Connection refused"
            )


def own_processes_only(peer: Peer, identity: Identity) -> str:
    """Replaces the check of the sandbox's uid: child processes have the tests' uid."""
    return "" if peer.uid == os.getuid() else "not the user of this test"


class OpenGate(Gate):
    """The gate of a node on which no class was tested, and none needs to be."""

    async def admit(self, trust_class: str) -> None:
        """Every peer may pass."""

    async def run(self) -> None:
        """Nothing is tested by itself."""


class FakeNode:
    """A sandboxd in a thread, with separate directories; ``stop`` and ``start`` to test
    adoption."""

    def __init__(self, docker: FakeDocker, **sandbox_options: object) -> None:
        self.docker = docker
        self.home = Path(tempfile.mkdtemp(prefix="sd-", dir="/tmp"))
        self.gate: Callable[[Node, Planner], Gate] = OpenGate
        self.options: dict[str, object] = {"start_deadline_seconds": 5, **sandbox_options}
        self.limits: dict[str, object] = {}
        self.invocation: dict[str, object] = {}
        self.more_options = ""
        self.stats: Stats = NoStats()
        self._stop: Callable[[], object] = lambda: None
        self._thread: threading.Thread | None = None

    @property
    def config(self) -> configuration.Config:
        """The options of this node, read as from a file."""
        lines = [
            "[sandbox]",
            f"run_dir={self.home}/run",
            f"state_dir={self.home}/state",
            "node_id=unit",
        ]
        lines += [f"{name}={value}" for name, value in self.options.items()]
        lines += ["[limits]", *(f"{name}={value}" for name, value in self.limits.items())]
        lines += ["[invocation]", *(f"{name}={value}" for name, value in self.invocation.items())]
        return configuration.parse("\n".join([*lines, self.more_options]))

    @property
    def paths(self) -> NodePaths:
        """The paths of this node, owned by the user who runs the tests."""
        return NodePaths(self.home / "run", self.home / "state", os.getuid(), os.getgid())

    def start(self) -> FakeNode:
        """Serve; returns when the request socket is there."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def stop(self) -> None:
        """End as after SIGTERM: the sandboxes stay."""
        self._stop()
        if self._thread is not None:
            self._thread.join(10)
            assert not self._thread.is_alive()
        # Abandoned blocking calls still write into the test's directories.
        until(
            lambda: not any(thread.name.startswith("blocking-") for thread in threading.enumerate())
        )

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        self.stop()
        self.docker.end()
        shutil.rmtree(self.home)

    async def _serve(self, ready: threading.Event) -> None:
        config, engine = self.config, FakeEngine(self.docker)
        paths = self.paths
        paths.make()
        node = Node(
            config,
            engine,
            paths,
            Threads(),
            own_processes_only,
            lambda *_: self.docker.weaker,
            Hierarchy(Path("/absent")),
            mount=self._mount,
            stats=self.stats,
        )
        identities = Identities(
            paths.state_dir, self.home / "claims", UidRange(3_000_000_000, 1000)
        )
        planner = Planner(config, engine, paths, identities)
        pool = Pool(node, planner, self.gate(node, planner))
        server = Server(paths.listen_for_requests(), pool)
        server.open()
        running = asyncio.create_task(pool.run())
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: (
            loop.call_soon_threadsafe(stopped.set) if not loop.is_closed() else None
        )
        ready.set()
        await asyncio.wait(
            {running, asyncio.create_task(stopped.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        server.close()
        await pool.close(5.0)
        if running.done():
            running.result()
        running.cancel()

    def _mount(self, source: Path, pid: int, target: str, is_alive: Callable[[], bool]) -> None:
        if self.docker.mount_fails:
            raise MountFault(f"{source} cannot be mounted in the sandbox: Operation not permitted")
        if not is_alive():
            raise MountFault(f"{source} cannot be mounted in the sandbox: it has ended")
        self.docker.mounted.append((source, pid, target))

    # --- as a filter
    # ------------------------------------------------------------------------------------------------

    def connect(self) -> socket.socket:
        """A connection to the request socket."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(15)
        connection.connect(str(self.home / "run" / "sandboxd.sock"))
        return connection

    def ask(self, request: messages.Message) -> Any:
        """The answer to one request on a connection of its own."""
        with self.connect() as connection:
            framing.send(connection, request)
            received = framing.receive(connection)
            assert received is not None, "sandboxd closed the connection without an answer"
            return received.message(messages.NODE_ANSWERS)

    def put_code(self, account: str, version: str, name: str = "up.py") -> Path:
        """The filter's steps before it requests a load."""
        code_dir = Path(self.ask(messages.Prepare(account, name)).code_dir)
        (code_dir / version).mkdir(exist_ok=True)
        return code_dir

    def load(self, account: str = "AUTH_a", version: str = "a" * 64, **changes: Any) -> Any:
        """Store code and request its socket."""
        self.put_code(account, version, changes.get("name", "up.py"))
        return self.ask(messages.Acquire(account, make_storlet(version=version, **changes)))

    def status(self) -> messages.NodeStatus:
        """The node's status from sandboxd."""
        answer = self.ask(messages.AskNodeStatus())
        assert isinstance(answer, messages.NodeStatus)
        return answer


def make_storlet(**changes: Any) -> messages.Storlet:
    """A storlet as a filter names it."""
    values = {
        "name": "up.py",
        "version": "a" * 64,
        "language": "python",
        "main": "up.Up",
        "file": "up.py",
    }
    return messages.Storlet(
        **{**values, "code": changes.get("version", values["version"]), **changes}
    )


def greeting(path: str) -> tuple[str, int]:
    """Version and pid of the supervisor that serves a group's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(5)
        connection.connect(path)
        version, pid = connection.recv(200).decode().split()
        return version, int(pid)


def work(path: str) -> socket.socket:
    """A connection that keeps a group busy until it is closed."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(5)
    connection.connect(path)
    connection.recv(200)
    connection.send(b"work")
    assert connection.recv(100) == b"working"
    return connection


def collect_connections() -> None:
    """Drop the connections of failed calls, of which docker-py lets go without closing them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait for something that happens in another thread or process."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def loaded(answer: object) -> str:
    assert isinstance(answer, messages.Acquired), answer
    return answer.socket


def refused(answer: object) -> messages.NodeRefused:
    assert isinstance(answer, messages.NodeRefused), answer
    return answer


def accounts(node: FakeNode) -> set[str]:
    return {sandbox.account for sandbox in node.status().sandboxes}


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(path))
