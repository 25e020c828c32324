"""The self-test finds each weakness: real sandboxes, each with one row of the hardening table
undone.

A test that was never seen to fail proves little.  Here the Docker engine receives a weaker body
than the table's, the comparison at the start is switched off, and the corresponding self-test must
fail.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon import selftest
from storlet_middleware import config as configuration
from storlet_middleware.config import Config
from storlet_middleware.sandboxd import hardening
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Planner
from storlet_middleware.sandboxd.self_test.self_tests import SelfTests
from storlet_middleware.sandboxd.threads import Threads
from tests.support.cluster import Cluster

Body = dict[str, Any]
NODE_ID = "probe-self-test"
FIRST_UID = 1_900_000_000
#: The root user of this machine may lack the capability that the kernel requires.
OF_THE_MACHINE = frozenset({"limit-oom-score-kept"})


class WeakEngine(Engine):
    """A Docker engine that receives a weaker body than the hardening table's."""

    def __init__(self, url: str, weaken: Callable[[Body], None]) -> None:
        super().__init__(url)
        self._weaken = weaken

    def start(self, name: str, body: Mapping[str, Any]) -> str:
        changed = {**body, "HostConfig": {**body["HostConfig"]}}
        self._weaken(changed)
        return super().start(name, changed)


class ProbeNode:
    """The parts of a sandboxd with separate directories."""

    def __init__(self, cluster: Cluster) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="st-", dir="/tmp"))
        self.home.chmod(0o755)
        self.url = cluster.docker_host
        options = {
            "image": cluster.description["sandbox_image"],
            "run_dir": self.home / "r",
            "state_dir": self.home / "s",
            "docker_url": self.url,
            "node_id": NODE_ID,
        }
        self.config = configuration.parse(
            "[sandbox]\n" + "\n".join(f"{k} = {v}" for k, v in options.items())
        )
        self.paths = NodePaths(self.home / "r", self.home / "s", 0, os.getgid())
        self.paths.make()
        self.identities = Identities(self.home / "s", self.home / "ids", UidRange(FIRST_UID, 100))

    def failed(
        self, weaken: Callable[[Body], None], trust_class: str = "user", prewarmed: int = 0
    ) -> dict[str, str]:
        """The failed self-tests of a weakened sandbox of a class, by name."""
        sandbox = dataclasses.replace(self.config.sandbox, prewarmed=prewarmed)
        config = dataclasses.replace(self.config, sandbox=sandbox)
        return asyncio.run(self._failed(WeakEngine(self.url, weaken), config, trust_class))

    async def _failed(self, engine: Engine, config: Config, trust_class: str) -> dict[str, str]:
        node = Node(config, engine, self.paths, Threads(), lambda *_: "", weaknesses=lambda *_: [])
        planner = Planner(config, engine, self.paths, self.identities)
        faults = await SelfTests(node, planner).run(config.classes[trust_class])
        assert not await node.threads.call(engine.ours, NODE_ID), (
            "a sandbox of the self-test is left"
        )
        assert set(faults) >= {test.name for test in selftest.TESTS}
        return {
            name: fault for name, fault in faults.items() if fault and name not in OF_THE_MACHINE
        }

    def remove(self) -> None:
        engine = Engine(self.url)
        for container in engine.ours(NODE_ID):
            engine.remove(container.id)
        parent = hardening.cgroup_parent(NODE_ID, engine.host())
        NodeCgroup(parent, Hierarchy()).remove()
        engine.close()
        shutil.rmtree(self.home)


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[ProbeNode]:
    made = ProbeNode(cluster)
    yield made
    made.remove()


def host(**changes: object) -> Callable[[Body], None]:
    """Other values in ``HostConfig``."""
    return lambda body: body["HostConfig"].update(changes)


def without_filter(body: Body) -> None:
    body["HostConfig"]["SecurityOpt"] = ["no-new-privileges", "seccomp=unconfined"]


def with_new_privileges(body: Body) -> None:
    options = body["HostConfig"]["SecurityOpt"]
    body["HostConfig"]["SecurityOpt"] = [
        option for option in options if "new-privileges" not in option
    ]


def as_root(body: Body) -> None:
    without_filter(body)
    body["User"] = "0:0"
    body["HostConfig"]["CapDrop"] = []


def with_host_network(body: Body) -> None:
    without_filter(body)
    body["NetworkDisabled"] = False
    body["HostConfig"]["NetworkMode"] = "host"


def mounted(source: str, target: str) -> Callable[[Body], None]:
    """Mount a further directory or socket of the host, writable."""
    more = {"Type": "bind", "Source": source, "Target": target, "ReadOnly": False}

    def weaken(body: Body) -> None:
        body["HostConfig"]["Mounts"] = [*body["HostConfig"]["Mounts"], more]

    return weaken


def with_writable_code(body: Body) -> None:
    body["HostConfig"]["Mounts"] = [
        {**mount, "ReadOnly": False} for mount in body["HostConfig"]["Mounts"]
    ]


def with_whole_scratch(body: Body) -> None:
    body["HostConfig"]["Tmpfs"]["/tmp"] = "rw,exec,suid,dev,mode=1777"


def with_shared_memory(options: str) -> Callable[[Body], None]:
    def weaken(body: Body) -> None:
        body["HostConfig"]["Tmpfs"]["/dev/shm"] = f"rw,nosuid,nodev,{options}"

    return weaken


def together(*weaken: Callable[[Body], None]) -> Callable[[Body], None]:
    """Several weaknesses at once, of which none changes what the tests of the others see."""

    def weaken_all(body: Body) -> None:
        for one in weaken:
            one(body)

    return weaken_all


FILES_AND_CORES = [
    {"Name": "nofile", "Soft": 4096, "Hard": 4096},
    {"Name": "core", "Soft": 1 << 20, "Hard": 1 << 20},
]
KMSG = {"PathOnHost": "/dev/kmsg", "PathInContainer": "/dev/kmsg", "CgroupPermissions": "r"}
WEAKNESSES: tuple[tuple[str, Callable[[Body], None], set[str]], ...] = (
    ("no seccomp filter", without_filter,
     {"seccomp", "syscall-ptrace", "syscall-io_uring_setup", "socket-netlink", "syscall-clone3"}),
    ("root with Docker's capabilities", as_root,
     {"user", "capabilities", "become-another", "syscall-chroot", "syscall-mknod", "files-of-others", "donated-reopen",
      "donated-attributes", "donated-change"}),
    ("the host's network", with_host_network, {"network-interfaces"}),
    ("the host's processes", host(PidMode="host"), {"processes-of-the-host"}),
    ("setuid files work, a device of the host, and many files in shared memory",
     together(with_new_privileges, host(Devices=[KMSG]), with_shared_memory("size=1m")),
     {"no-new-privileges", "files-no-devices", "scratch-shared-memory"}),
    ("a capability, and an unlimited scratch with devices",
     together(host(CapAdd=["SYS_PTRACE"]), with_whole_scratch),
     {"capabilities", "scratch-options", "limit-scratch"}),
    ("groups of the host, a writable root, and much shared memory",
     together(host(GroupAdd=["4", "27"], ReadonlyRootfs=False), with_shared_memory("size=64m,nr_inodes=1024")),
     {"groups", "root-read-only", "mounts-read-only", "scratch-shared-memory"}),
    ("writable code", with_writable_code, {"mounts-read-only"}),
    ("no limits of processes, memory, files and cores, and no place in the list of victims",
     host(PidsLimit=0, Memory=0, MemorySwap=0, Ulimits=FILES_AND_CORES, OomScoreAdj=0),
     {"limit-processes", "limit-memory", "limit-open-files", "limit-core", "limit-oom-score"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("weaken", "names"), [row[1:] for row in WEAKNESSES], ids=[row[0] for row in WEAKNESSES]
)
def test_a_weakness_is_found_by_the_test_of_its_name(
    node: ProbeNode, weaken: Callable[[Body], None], names: set[str]
) -> None:
    failed = node.failed(weaken)

    assert names <= set(failed), failed


@pytest.mark.parametrize("trust_class", ["user", "admin"])
def test_a_sandbox_with_all_hardening_passes_the_self_test(
    node: ProbeNode, trust_class: str
) -> None:
    assert node.failed(lambda _body: None, trust_class) == {}
    assert not (node.paths.state_dir / "self-test-object").exists(), "its donated file"


def test_an_assigned_pre_warmed_sandbox_passes_the_self_test(node: ProbeNode) -> None:
    users: list[str] = []

    assert node.failed(lambda body: users.append(body["User"]), prewarmed=1) == {}
    assert users[1:] == ["0:0"], "it began as root, which it gave up"


def test_a_docker_socket_in_the_sandbox_is_found(node: ProbeNode) -> None:
    path = node.url.removeprefix("unix://")

    failed = node.failed(mounted(path, "/var/run/docker.sock"))

    assert "docker.sock" in failed["files-no-sockets"]


def test_a_folder_that_outlives_the_sandbox_is_found(node: ProbeNode, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    failed = node.failed(mounted(str(tmp_path), "/srv"))

    assert "/srv" in failed["files-not-writable"]
    assert "/srv" in failed["mounts-read-only"]
    assert not list(tmp_path.iterdir()), "the test left something behind"
