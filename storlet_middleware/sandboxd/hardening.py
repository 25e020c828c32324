"""The permissions of a sandbox: an ordered table of Docker arguments, each with its purpose.

:data:`TABLE` is the policy and :func:`container_arguments` its only interpreter: it turns the table
into the body of Docker's ``POST /containers/create``.  To add a limit or a mount, add a row; its
``against`` names the attack or fault that it prevents.  A row may name a ``needs``: a fact of the
host (a key of Docker's ``/info``).  Without that fact the row is left out, and :func:`missing`
reports it, because a host without swap accounting or CPU quota should run sandboxes and warn its
operator, not refuse all of them.

System calls are filtered by a profile of our own (:mod:`.seccomp`), narrower than Docker's.  The
AppArmor profile is Docker's, where the host has AppArmor.  Several rows may fill one argument that
is a list; each adds to it.

A *pre-warmed sandbox* belongs to no tenant yet.  It runs as root, with exactly the three
capabilities by which it becomes its tenant's user for good, and without code; all other arguments
are the same.

A storlet also attacks what no argument of Docker's restricts: Swift's processes through the streams
of a run, the next run of its worker, the disk.  :data:`BEYOND` has these protections and the module
of each.  ``attacks`` of both tables names rows of ``make attack``, which attempt it.

The effect of the table in a running sandbox is read back before any code is loaded:
:mod:`.readback`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware.config import Mount
from storlet_middleware.sandboxd import seccomp

COMMAND: Final = ("/usr/bin/python3", "-I", "-B", "/usr/local/lib/storlets/python/storlet_daemon")
CONTROL_TARGET: Final = "/run/storlets"
CODE_TARGET: Final = "/var/lib/storlets"
SCRATCH: Final = "/tmp"  # noqa: S108  the sandbox has one of its own

#: Inodes of the scratch: far more than ordinary code needs, and at most 8 MiB of kernel memory.
SCRATCH_INODES: Final = 8192
#: The private folders of worker groups, with the limits of the scratch.
HOMES: Final = "/homes"
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  the sandbox has one of its own
#: Size and inodes of it: Python's semaphores fit in it.
SHM_BYTES: Final = 1024 * 1024
SHM_INODES: Final = 1024
#: Above that of Swift's processes (0), so that the kernel kills processes of sandboxes first.
OOM_SCORE_ADJ: Final = 500


#: A key of ``/info`` that :class:`~storlet_middleware.sandboxd.docker.Engine` adds: Docker's
#: control groups are visible.  They are not where sandboxd itself runs in a container.
CGROUPS_IN_SIGHT: Final = "CgroupsInSight"
#: Needed by a pre-warmed sandbox to become its tenant's user, and given up with that.
SPARE_CAPABILITIES: Final = ("SETGID", "SETPCAP", "SETUID")
NO_NETWORK: Final = "none"

#: Idle thread pools of OpenMP and OpenBLAS sleep. By default they spin for up to 0.2 s on each
#: processor, which the supervisor would mistake for a storlet that computes after its end.
QUIET_THREADS: Final = ("OMP_WAIT_POLICY=PASSIVE", "KMP_BLOCKTIME=0", "OPENBLAS_THREAD_TIMEOUT=20")

#: Docker's own list, then files that expose the host's disks, devices and load. Each is a mount,
#: which adds more than half a millisecond to every start, so the list is short; most other files of
#: this kind are readable by root only, or empty for other users.
MASKED_PATHS: Final = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
    "/sys/devices/virtual/powercap", "/sys/firmware", "/proc/diskstats", "/proc/interrupts",
    "/proc/key-users", "/proc/locks", "/proc/modules", "/proc/partitions", "/sys/block", "/sys/bus",
    "/sys/module", "/proc/pressure", "/proc/config.gz",
)  # fmt: skip


@dataclass(frozen=True)
class SandboxFacts:
    """The input of the rows; paths are the host's.  A pre-warmed sandbox has uid and gid 0."""

    image_id: str
    uid: int
    gid: int
    control_dir: str
    code_dir: str | None
    runtime: str
    memory_bytes: int
    cpus: float
    pids: int
    open_files: int
    scratch_bytes: int
    network: str = NO_NETWORK
    mounts: tuple[Mount, ...] = ()
    has_file_locks: bool = False
    cgroup_parent: str = ""
    is_spare: bool = False

    @property
    def has_network(self) -> bool:
        """Whether the operator gave its trust class a network."""
        return self.network != NO_NETWORK


@dataclass(frozen=True)
class Row:
    """One Docker argument; ``path`` is its key in the request's body.

    A value of ``None`` leaves it out; lists of several rows are joined.
    """

    path: str
    value: Callable[[SandboxFacts], Any]
    against: str
    needs: str = ""
    attacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Protection:
    """A protection that is no argument of Docker's; ``module`` implements it."""

    module: str
    against: str
    attacks: tuple[str, ...]


def _fixed(value: object) -> Callable[[SandboxFacts], Any]:
    return lambda _facts: value


def _user(facts: SandboxFacts) -> str:
    return "0:0" if facts.is_spare else f"{facts.uid}:{facts.gid}"


def _scratch(facts: SandboxFacts) -> dict[str, str]:
    # The tenant of a pre-warmed sandbox is not known yet, and the owner of a mount cannot change.
    # No other user exists inside that could write to it.
    access = "mode=1777" if facts.is_spare else f"mode=0700,uid={facts.uid},gid={facts.gid}"
    options = f"rw,exec,nosuid,nodev,size={facts.scratch_bytes},nr_inodes={SCRATCH_INODES},{access}"
    shared = f"rw,noexec,nosuid,nodev,size={SHM_BYTES},nr_inodes={SHM_INODES},mode=1777"
    return {SCRATCH: options, HOMES: options, SHARED_MEMORY: shared}


def _mounts(facts: SandboxFacts) -> list[dict[str, Any]]:
    code = (
        () if facts.code_dir is None else (Mount(facts.code_dir, CODE_TARGET, is_writable=False),)
    )
    return [
        {
            "Type": "bind",
            "Source": mount.source,
            "Target": mount.target,
            "ReadOnly": not mount.is_writable,
            "BindOptions": {"Propagation": "rprivate"},
        }
        for mount in (
            Mount(facts.control_dir, CONTROL_TARGET, is_writable=False),
            *code,
            *facts.mounts,
        )
    ]


def _system_calls(facts: SandboxFacts) -> list[str]:
    profile = seccomp.profile(
        has_network=facts.has_network,
        has_file_locks=facts.has_file_locks,
        writes_on_host=any(mount.is_writable for mount in facts.mounts),
    )
    return [f"seccomp={profile}"]


def ulimits(facts: SandboxFacts) -> dict[str, int]:
    """The limits of each process, by Docker's names."""
    return {"nofile": facts.open_files, "core": 0, "msgqueue": 0, "memlock": 64 * 1024}


def _ulimits(facts: SandboxFacts) -> list[dict[str, Any]]:
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits(facts).items()]


TABLE: Final = (
    Row("Image", lambda f: f.image_id,
        "an image that is replaced between the check of its id and the start"),
    Row("Entrypoint", _fixed(list(COMMAND)),
        "an image whose own entry point would run instead of the supervisor"),
    Row("User", _user, "root, Swift's uid (it could reopen donated files), other tenants"),
    Row("HostConfig.CapDrop", _fixed(["ALL"]),
        "every privilege of root that a bug might bring back"),
    Row("HostConfig.CapAdd", lambda f: list(SPARE_CAPABILITIES) if f.is_spare else None,
        "a pre-warmed sandbox that could not give up root"),
    Row("HostConfig.SecurityOpt", _fixed(["no-new-privileges"]),
        "privileges through setuid files and file capabilities",
        attacks=("identity, capabilities and descriptors",)),
    Row("HostConfig.SecurityOpt", _system_calls,
        "the kernel's rarely needed calls: where escapes come from, and other limits' gaps; locks"
        " and packet filters, whose memory counts for no sandbox; flushes of the disk's cache",
        attacks=("dangerous system calls", "kernel objects",
                 "locks by the thousand on the input and in memory",
                 "flushes of the input without end")),
    Row("HostConfig.Privileged", _fixed(value=False),
        "a default of the engine that is weaker than this table"),
    Row("HostConfig.ReadonlyRootfs", _fixed(value=True),
        "a filled disk; code that is left for the tenant's next storlet",
        attacks=("writes other storlets' code, traces their workers",)),
    # exec is allowed on purpose: uploaded code can run further code without executable files (an
    # interpreter and memfd_create suffice), and Java libraries unpack and load native parts here.
    Row("HostConfig.Tmpfs", _scratch,
        "a filled disk or inode table, device files and setuid files, a second scratch in /dev/shm,"
        " and files that one storlet plants for another: homes are apart from what all share",
        attacks=("disk filler in every mount", "inode filler", "inode filler in shared memory",
                 "plants files for the tenant's other storlets")),
    Row("HostConfig.Mounts", _mounts,
        "writing to code or to the control directory; paths that no operator configured"),
    Row("HostConfig.MaskedPaths", _fixed(list(MASKED_PATHS)),
        "reading or changing the host's keys, addresses, hardware and load",
        attacks=("files of host, kernel and process 1; devices",)),
    Row("HostConfig.NetworkMode", lambda f: f.network,
        "any network, the cloud's metadata address, abstract sockets of the host",
        attacks=("network", "connects to every Unix socket")),
    Row("NetworkDisabled", lambda f: not f.has_network, "a network that is attached later"),
    Row("HostConfig.IpcMode", _fixed("private"), "shared memory and message queues of others"),
    Row("HostConfig.PidMode", _fixed(""), "seeing or signalling processes of the host"),
    Row("HostConfig.UTSMode", _fixed(""), "the host's name"),
    Row("Hostname", _fixed("sandbox"),
        "the host's name and the sandbox's id, which would identify the node"),
    Row("HostConfig.CgroupnsMode", _fixed("private"), "the host's control groups"),
    Row("HostConfig.CgroupParent", lambda f: f.cgroup_parent or None,
        "all sandboxes together starving Swift", needs=CGROUPS_IN_SIGHT),
    Row("HostConfig.PidsLimit", lambda f: f.pids, "fork bombs and thread bombs", needs="PidsLimit",
        attacks=("fork bomb", "fork bomb that leaves its session", "thread bomb")),
    Row("HostConfig.Memory", lambda f: f.memory_bytes, "memory bombs", needs="MemoryLimit",
        attacks=("memory bomb: heap", "memory bomb: native", "memory bomb: mapped and shared",
                 "memory bomb: files in memory", "page cache by mmap")),
    Row("HostConfig.MemorySwap", lambda f: f.memory_bytes,
        "swapping instead of being killed", needs="SwapLimit"),
    Row("HostConfig.NanoCpus", lambda f: int(f.cpus * 1e9) or None,
        "endless loops on every core", needs="CpuCfsQuota",
        attacks=("endless loop on every core",)),
    Row("HostConfig.OomScoreAdj", _fixed(OOM_SCORE_ADJ),
        "the kernel killing Swift when the host is out of memory"),
    Row("HostConfig.Ulimits", _ulimits,
        "a full table of open files, core files, pinned memory, queues in the kernel",
        attacks=("descriptor exhaustion", "kernel objects")),
    Row("HostConfig.Init", _fixed(value=False),
        "a PID 1 that is not our supervisor and would keep orphans alive"),
    Row("HostConfig.RestartPolicy", _fixed({"Name": "no"}), "a sandbox that runs without sandboxd"),
    Row("HostConfig.LogConfig", _fixed({"Type": "none"}),
        "a disk filled through stdout; tenant output in operators' logs"),
    Row("HostConfig.AutoRemove", _fixed(value=False), "an end whose exit code is lost"),
    Row("Healthcheck", _fixed({"Test": ["NONE"]}),
        "commands of the image that the engine would run inside"),
    Row("WorkingDir", _fixed(SCRATCH), "relative paths that fail because / is read-only"),
    Row("Env", _fixed(["LANG=C.UTF-8", f"HOME={SCRATCH}"]),
        "names of files and text that break on the C locale"),
    Row("Env", _fixed(list(QUIET_THREADS)),
        "threads of numerical libraries that spin after each run, outside any invocation"),
    Row("Tty", _fixed(value=False), "terminal escapes"),
    Row("OpenStdin", _fixed(value=False), "a writer to the supervisor's input"),
    Row("HostConfig.Runtime", lambda f: f.runtime,
        "the kernel's own attack surface, when the operator names runsc or kata"),
)  # fmt: skip


BEYOND: Final = (
    Protection("storlet_middleware.wsgi.stored_headers",
        "headers that an object server refuses, so that Swift's proxy avoids the node for a minute",
        ("metadata that no node stores",)),
    Protection("storlet_middleware.wsgi.sent_headers",
        "headers that Swift's HTTP client cannot send, with the same consequence",
        ("requests with headers that HTTP cannot carry",)),
    Protection("storlet_middleware.engine.output_stream",
        "bytes in tiny pieces, each of which costs a Swift process a turn of its event loop",
        ("output byte by byte, four at once", "several outputs byte by byte at once",
         "a call on single bytes that are not read", "many created files byte by byte")),
    Protection("storlet_middleware.engine.handover",
        "locks of a shared stream or file position, held while slow pages are read",
        ("output from cold pages", "cold reads of the input",
         "moves the donated descriptor's offset")),
    Protection("storlet_daemon.descriptor_filter",
        "descriptors that are slow to close, sent to a Swift process",
        ("descriptors that are slow to close", "holds all descriptors in flight")),
    Protection("storlet_daemon.author",
        "objects of a run that touch the descriptors of the next one",
        ("objects kept from another run", "keeps the last run's input")),
    Protection("storlet_middleware.engine.progress",
        "a wait for a worker that counts as time of the storlet",
        ("runs that wait for a worker",)),
    Protection("storlet_daemon.worker_group.reports",
        "space of deleted objects, kept by a worker for as long as it lives",
        ("keeps a deleted object",)),
    Protection("storlet_daemon.landlock",
        "programs, homes and memory of the account's other storlets",
        ("plants files for the tenant's other storlets",
         "reads programs of the tenant's other storlets", "kills the tenant's other storlets")),
    Protection("storlet_daemon.worker_group.exit_cause",
        "a kill for memory in one storlet that another one is blamed for",
        ("memory bomb: in a child", "leaks while another storlet works")),
    Protection("storlet_middleware.sandboxd.sandbox.worker_groups",
        "a worker group for each set of limits that a request can send",
        ("requests with twelve different limits",)),
)  # fmt: skip


def missing(host: Mapping[str, Any]) -> list[Row]:
    """Rows that this host cannot enforce; ``host`` is Docker's ``/info``."""
    return [row for row in TABLE if row.needs and not host.get(row.needs)]


def container_arguments(facts: SandboxFacts, host: Mapping[str, Any]) -> dict[str, Any]:
    """The table for one sandbox as the body of ``POST /containers/create``, without labels."""
    body: dict[str, Any] = {}
    absent = missing(host)
    for row in TABLE:
        value = row.value(facts)
        if value is None or row in absent:
            continue
        section, _, key = row.path.rpartition(".")
        target = body.setdefault(section, {}) if section else body
        target[key] = target[key] + value if key in target else value
    return body


def arguments_hash(body: Mapping[str, Any]) -> str:
    """Short hash of all arguments of a container; one with another hash is outdated."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def cgroup_parent(node_id: str, host: Mapping[str, Any]) -> str:
    """The control group above all sandboxes of the node, for Docker: a path or a slice's name."""
    if host.get("CgroupDriver") == "systemd":
        # "storlets-x.slice" is below "storlets.slice": '-' separates the levels.
        escaped = "".join(c if c.isalnum() or c in "_." else f"\\x{ord(c):02x}" for c in node_id)
        return f"storlets-{escaped}.slice"
    return f"/storlets-{node_id}"
