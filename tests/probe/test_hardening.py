"""The hardening table in real sandboxes: kernel settings, denied calls, permitted calls, refused
sandboxes.

See ``docs/decisions/0010-system-call-filter.rst``.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol.messages import Resources
from storlet_middleware import config as configuration
from storlet_middleware.config import Mount
from storlet_middleware.sandboxd import hardening, seccomp
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.cgroups.workers import WorkerCgroups
from storlet_middleware.sandboxd.control import peer_fault
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.errors import SandboxWeak
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Planner
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox
from storlet_middleware.sandboxd.threads import Threads
from tests.support.cluster import Cluster
from tests.support.host import Host
from tests.support.storlets import JavaClasses, Tool, declaration, java_libraries
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

STORLETS = Path(__file__).parent / "storlets"
REFUSALS = {"Operation not permitted", "Function not implemented"}


@pytest.fixture(scope="module")
def settings(cluster: Cluster) -> configuration.Config:
    return configuration.load(str(cluster.storlet_conf))


@pytest.fixture(scope="module")
def docker_host(settings: configuration.Config) -> Mapping[str, Any]:
    return Engine(settings.sandbox.docker_url).host()


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


# --- as the host sees it --------------------------------------------------------------------------


def test_no_process_of_a_sandbox_has_a_privilege(
    host: Host, tenant: Tenant, java: Callable[[str], Tool]
) -> None:
    assert tenant.is_well()
    assert java("object").get(tenant.path).status == 200
    sandbox = host.sandbox(tenant.account)
    pids = [sandbox.pid, *(process.pid for process in host.inside(sandbox))]
    assert len(pids) >= 3, "supervisor and a worker of each language"
    for pid in pids:
        status = status_of(pid)
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
            "0" * 16
        }
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert (
            len(
                set(status["Uid"].split())
                | set(status["Gid"].split())
                | set(status["Groups"].split())
            )
            == 1
        )
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) >= hardening.OOM_SCORE_ADJ
        assert (
            "Max core file size        0                    0"
            in Path(f"/proc/{pid}/limits").read_text()
        )


def test_a_sandbox_shares_no_namespace_with_the_host(host: Host, tenant: Tenant) -> None:
    assert tenant.is_well()
    pid = host.sandbox(tenant.account).pid
    for kind in ("cgroup", "ipc", "mnt", "net", "pid", "uts"):
        assert (
            Path(f"/proc/{pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
        ), kind


def test_all_sandboxes_of_the_node_are_below_one_group_with_totals(
    host: Host,
    tenant: Tenant,
    tenant_of_neighbour: Tenant,
    settings: configuration.Config,
    docker_host: Mapping[str, Any],
) -> None:
    if not docker_host[hardening.CGROUPS_IN_SIGHT]:
        pytest.skip("the control groups of the engine are out of sight here")
    assert tenant.is_well()
    assert tenant_of_neighbour.is_well()
    parent = hardening.cgroup_parent(host.node_id, docker_host).lstrip("/")
    seen = set()
    for sandbox in host.sandboxes():
        # sandboxd may end one of its self-test's at this moment.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for path in WorkerCgroups().directories(sandbox.pid).values():
                assert path.parent.name == parent
                seen.add(sandbox.account)
    assert seen >= {tenant.account, tenant_of_neighbour.account}
    groups = {
        name: path.parent
        for name, path in WorkerCgroups().directories(host.sandbox(tenant.account).pid).items()
    }
    assert {"memory", "pids", "cpu"} <= set(groups)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = int(first_of(groups["memory"], "memory.max", "memory.limit_in_bytes"))
    assert settings.node.memory == pytest.approx(memory / total, rel=0.02)
    assert first_of(groups["pids"], "pids.max") == str(settings.node.pids)
    assert first_of(groups["cpu"], "cpu.weight", "cpu.shares") in (
        str(settings.node.cpu_shares),
        "25",
    )


def first_of(folder: Path, *names: str) -> str:
    return next((folder / name).read_text().strip() for name in names if (folder / name).exists())


def test_the_kernel_holds_the_limits_that_the_configuration_names(
    host: Host, tenant: Tenant, settings: configuration.Config
) -> None:
    assert tenant.is_well()
    groups = WorkerCgroups().directories(host.sandbox(tenant.account).pid)
    limits = settings.classes["user"].limits
    assert first_of(groups["memory"], "memory.max", "memory.limit_in_bytes") == str(
        limits.memory_bytes
    )
    assert first_of(groups["pids"], "pids.max") == str(limits.pids)


# --- system calls ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calls(tenant: Tenant) -> dict[str, str]:
    """The outcome of each system call that no sandbox may make."""
    if platform.machine() != "x86_64":
        pytest.skip("the storlet knows the numbers of x86-64 only")
    name = tenant.upload("caller.py", (STORLETS / "caller.py").read_bytes(), "Caller")
    answer = tenant.tool(storlet=name).get(tenant.path)
    assert answer.status == 200, answer
    found: dict[str, str] = json.loads(answer.body)
    return found


def test_every_denied_call_fails_as_if_it_did_not_exist(calls: dict[str, str]) -> None:
    assert set(seccomp.DENIED.split()) <= set(calls)
    assert {
        name: calls[name] for name in seccomp.DENIED.split() if calls[name] not in REFUSALS
    } == {}


def test_no_namespace_can_be_created(calls: dict[str, str]) -> None:
    made = {name: result for name, result in calls.items() if name.startswith("clone ")}
    assert len(made) == 7
    assert set(made.values()) == {"Operation not permitted"}
    assert calls["clone3"] == "Function not implemented"


def test_only_local_sockets_can_be_created(calls: dict[str, str]) -> None:
    sockets = {name: result for name, result in calls.items() if name.startswith("socket")}
    assert len(sockets) == 8
    assert set(sockets.values()) == {"Operation not permitted"}


def test_a_file_system_of_the_host_answers_no_special_requests(calls: dict[str, str]) -> None:
    requests = {name: result for name, result in calls.items() if name.startswith("ioctl")}
    assert len(requests) == 4
    assert set(requests.values()) == {"Operation not permitted"}
    assert calls["attributes of the object"] == "Operation not supported"


def test_the_other_calling_conventions_of_the_processor_are_closed(calls: dict[str, str]) -> None:
    for name in ("x32", "int 0x80"):
        assert calls[name] in {"SIGSYS", *REFUSALS}, (name, calls[name])


def test_ordinary_python_works(tenant: Tenant) -> None:
    name = tenant.upload("honest.py", (STORLETS / "honest.py").read_bytes(), "Honest")
    answer = tenant.tool(storlet=name).get(tenant.path)
    assert answer.status == 200, answer
    assert json.loads(answer.body) == {}


def test_ordinary_java_works(tenant: Tenant, cluster: Cluster) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no JDK: javac is missing")
    classes = JavaClasses(
        cluster.java_api_jar, java_libraries(cluster.java_api_jar), STORLETS / "java"
    )
    headers = declaration("java", "honest.Honest")
    assert tenant.client.put("storlet/honest-1.0.jar", classes.jar("honest"), headers).status == 201
    answer = tenant.tool(storlet="honest-1.0.jar").get(tenant.path)
    assert answer.status == 200, answer
    assert answer.body.decode() == ""


# --- a sandbox weaker than configured -------------------------------------------------------------


class Sloppy(Engine):
    """A Docker engine that silently drops or changes arguments, like an old version or a broken
    runtime."""

    def __init__(self, url: str, change: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(url)
        self._change_body = change

    def start(self, name: str, body: Mapping[str, Any]) -> str:
        changed: dict[str, Any] = json.loads(json.dumps(body))
        self._change_body(changed)
        return super().start(name, changed)


@pytest.fixture
def private(settings: configuration.Config) -> Iterator[configuration.Config]:
    """The cluster's options for a separate node."""
    home = tempfile.mkdtemp(prefix="weak-", dir="/run")
    own = dataclasses.replace(
        settings.sandbox,
        node_id=Path(home).name,
        run_dir=f"{home}/run",
        state_dir=f"{home}/state",
        uid_first=295_000,
    )
    yield dataclasses.replace(settings, sandbox=own)
    shutil.rmtree(home)


async def started(
    config: configuration.Config,
    change: Callable[[dict[str, Any]], None],
    look: Callable[[str], None] = lambda _: None,
) -> None:
    """Start one sandbox on such a Docker engine, inspect its Docker container, and end it."""
    engine = Sloppy(config.sandbox.docker_url, change)
    paths = NodePaths(Path(config.sandbox.run_dir), Path(config.sandbox.state_dir), 0, 0)
    paths.make()
    node = Node(config, engine, paths, Threads(), peer_fault)
    uids = UidRange(config.sandbox.uid_first, config.sandbox.uid_count)
    planner = Planner(
        config, engine, paths, Identities(paths.state_dir, Path(config.sandbox.run_dir), uids)
    )
    paths.code.make("AUTH_weak")
    sandbox = Sandbox(planner.plan(planner.demand("AUTH_weak", "x.py")), node, lambda *_: None)
    try:
        async with asyncio.timeout(60):
            await sandbox.start()
            await asyncio.to_thread(look, sandbox.container.id or "")
    finally:
        sandbox.cut()
        await sandbox.remove()
        parent = hardening.cgroup_parent(config.sandbox.node_id, engine.host())
        with contextlib.suppress(OSError):
            NodeCgroup(parent, Hierarchy()).remove()


def put(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["HostConfig"].update({key: value})


def drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["HostConfig"].pop(key)


def test_a_sandbox_as_configured_starts(private: configuration.Config) -> None:
    asyncio.run(started(private, lambda _body: None))


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("HostConfig.PidsLimit", drop("PidsLimit")),
        (
            "HostConfig.Memory",
            lambda body: body["HostConfig"].update(Memory=2 << 30, MemorySwap=2 << 30),
        ),
        ("HostConfig.MemorySwap", put("MemorySwap", -1)),
        ("HostConfig.SecurityOpt", put("SecurityOpt", ["no-new-privileges", "seccomp=unconfined"])),
        (
            "HostConfig.SecurityOpt",
            lambda body: body["HostConfig"]["SecurityOpt"].remove("no-new-privileges"),
        ),
        ("HostConfig.CapDrop", put("CapAdd", ["SYS_PTRACE"])),
        ("HostConfig.ReadonlyRootfs", put("ReadonlyRootfs", value=False)),
        ("HostConfig.Tmpfs", put("Tmpfs", {"/tmp": "rw,size=1g,mode=1777"})),
        ("HostConfig.Mounts", lambda body: body["HostConfig"]["Mounts"][1].update(ReadOnly=False)),
        ("HostConfig.MaskedPaths", put("MaskedPaths", [])),
        ("HostConfig.Tmpfs", lambda body: body["HostConfig"]["Tmpfs"].pop("/dev/shm")),
        ("HostConfig.OomScoreAdj", drop("OomScoreAdj")),
        ("HostConfig.Ulimits", drop("Ulimits")),
        ("HostConfig.CgroupnsMode", put("CgroupnsMode", "host")),
    ],
)
def test_a_weaker_sandbox_is_refused_and_named(
    private: configuration.Config,
    caplog: pytest.LogCaptureFixture,
    row: str,
    change: Callable[[dict[str, Any]], None],
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(SandboxWeak, match=row):
        asyncio.run(started(private, change))
    assert f'fault="{row}: ' in caplog.text


# --- a trust class with more privileges -----------------------------------------------------------

#: Inside the sandbox, under its filter: allowed socket families, network interfaces, writable
#: paths.
LOOK = """
import json, os, socket
def can(do, *words):
    try:
        made = do(*words)
    except OSError as error:
        return error.strerror
    made.close()
    return "yes"
print(json.dumps({
    "inet": can(socket.socket, socket.AF_INET), "inet6": can(socket.socket, socket.AF_INET6),
    "packet": can(socket.socket, socket.AF_PACKET, socket.SOCK_RAW), "raw": can(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "read": can(open, "/given/file"), "write": can(open, "/given/file", "a"), "out": can(open, "/out/file", "w"),
}))
"""


def test_an_admin_class_has_only_the_configured_network_and_mounts(
    host: Host, private: configuration.Config, tmp_path: Path
) -> None:
    given, out = tmp_path / "given", tmp_path / "out"
    for folder in (*reversed(tmp_path.parents[:2]), tmp_path, given, out):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    (given / "file").write_text("x")
    (given / "file").chmod(0o666)
    mounts = (
        Mount(str(given), "/given", is_writable=False),
        Mount(str(out), "/out", is_writable=True),
    )
    network = private.sandbox.node_id
    admin = dataclasses.replace(
        private.classes["admin"], accounts=("AUTH_weak",), network=network, mounts=mounts
    )
    config = dataclasses.replace(private, classes={**private.classes, "admin": admin})
    found: dict[str, Any] = {}
    host.docker("network", "create", network)
    try:
        asyncio.run(
            started(
                config,
                lambda _body: None,
                lambda container: found.update(
                    json.loads(host.docker("exec", container, "/usr/bin/python3", "-c", LOOK)),
                ),
            )
        )
    finally:
        host.docker("network", "rm", network)
    assert (found["inet"], found["inet6"]) == ("yes", "yes")
    assert len(found["interfaces"]) == 2
    assert (found["packet"], found["raw"]) == ("Operation not permitted", "Operation not permitted")
    assert (found["read"], found["write"], found["out"]) == ("yes", "Read-only file system", "yes")


# --- control groups -------------------------------------------------------------------------------


def test_all_sandboxes_together_stay_within_the_nodes_limits(
    host: Host, private: configuration.Config, docker_host: Mapping[str, Any]
) -> None:
    if not docker_host[hardening.CGROUPS_IN_SIGHT]:
        pytest.skip("the control groups of the engine are out of sight here")
    assert private.limits.memory_bytes > 256 << 20, "else it is the sandbox's own limit that is met"
    parent = hardening.cgroup_parent(private.sandbox.node_id, docker_host)
    totals = dataclasses.replace(private.node, memory=128 << 20)
    assert NodeCgroup(parent, Hierarchy()).make(totals) == []

    def fill(container: str) -> None:
        command = ("exec", container, "/usr/bin/python3", "-c")
        assert host.docker(*command, "print(len(bytearray(20 << 20)))").strip() == str(20 << 20)
        with pytest.raises(RuntimeError):
            host.docker(*command, "print(len(bytearray(200 << 20)))")

    asyncio.run(started(private, lambda _body: None, fill))


def test_removal_by_docker_removes_our_control_groups(
    host: Host, fresh: Tenant, docker_host: Mapping[str, Any]
) -> None:
    if not docker_host[hardening.CGROUPS_IN_SIGHT]:
        pytest.skip("the control groups of the engine are out of sight here")
    assert fresh.is_well()
    sandbox = host.sandbox(fresh.account)
    groups = WorkerCgroups()
    paths = set(groups.directories(sandbox.pid).values())
    worker = host.inside(sandbox)[0]
    number = int(status_of(worker.pid)["NSpid"].split()[-1])
    directory = groups.move_worker(sandbox.pid, number, "ef" * 32, Resources(64 << 20, 0.5, 20))
    assert directory
    for path in paths:
        assert str(worker.pid) in (path / directory / "cgroup.procs").read_text().split()
        assert (path / directory).stat().st_uid == 0
    host.remove(sandbox)
    wait_for(
        lambda: not [path for path in paths if path.exists()], 5, "the control groups to be gone"
    )
