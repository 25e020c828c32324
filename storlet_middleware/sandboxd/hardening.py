"""What a sandbox may do: the ordered table of Docker arguments, each row with what it is against.

:data:`TABLE` is the policy and :func:`container_arguments` its only interpreter: it turns the table into the body of
Docker's ``POST /containers/create``.  To add a limit or a mount, add a row.  A row may name a ``needs``: a fact of the
host (a key of Docker's ``/info``).  Where it is absent the row is left out and :func:`missing` says so, because a host
without swap accounting or CPU quota should run sandboxes and tell its operator, not refuse all of them.

Sandboxes run under Docker's default seccomp and AppArmor profiles: no row sets ``SecurityOpt`` to anything weaker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

COMMAND: Final = ("/usr/bin/python3", "-B", "/usr/local/lib/storlets/python/storlet_daemon")
CONTROL_TARGET: Final = "/run/storlets"
CODE_TARGET: Final = "/var/lib/storlets"
SCRATCH: Final = "/tmp"  # noqa: S108  the sandbox has one of its own

#: Inodes of the scratch: far beyond what honest code opens, and some 8 MiB of kernel memory at most.
SCRATCH_INODES: Final = 8192
#: Worse than any of Swift's processes (0), so that the kernel looks for a victim in sandboxes first.
OOM_SCORE_ADJ: Final = 500


@dataclass(frozen=True)
class SandboxFacts:
    """What the rows are computed from; paths are the host's."""

    image_id: str
    uid: int
    gid: int
    control_dir: str
    code_dir: str
    runtime: str
    memory_bytes: int
    cpus: float
    pids: int
    open_files: int
    scratch_bytes: int


@dataclass(frozen=True)
class Row:
    """One Docker argument: ``path`` is its place in the request's body; a value of ``None`` leaves it out."""

    path: str
    value: Callable[[SandboxFacts], Any]
    against: str
    needs: str = ""


def _fixed(value: object) -> Callable[[SandboxFacts], Any]:
    return lambda _facts: value


def _scratch(facts: SandboxFacts) -> dict[str, str]:
    options = (
        f"rw,exec,nosuid,nodev,size={facts.scratch_bytes},nr_inodes={SCRATCH_INODES},"
        f"mode=0700,uid={facts.uid},gid={facts.gid}"
    )
    return {SCRATCH: options}


def _mounts(facts: SandboxFacts) -> list[dict[str, Any]]:
    pairs = ((facts.control_dir, CONTROL_TARGET), (facts.code_dir, CODE_TARGET))
    return [
        {
            "Type": "bind",
            "Source": source,
            "Target": target,
            "ReadOnly": True,
            "BindOptions": {"Propagation": "rprivate"},
        }
        for source, target in pairs
    ]


def _ulimits(facts: SandboxFacts) -> list[dict[str, Any]]:
    limits = {"nofile": facts.open_files, "core": 0, "msgqueue": 0, "memlock": 64 * 1024}
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in limits.items()]


TABLE: Final = (
    Row("Image", lambda f: f.image_id, "an image that is replaced between the check of its id and the start"),
    Row("Entrypoint", _fixed(list(COMMAND)), "an image whose own entry point would run instead of the supervisor"),
    Row("User", lambda f: f"{f.uid}:{f.gid}", "root, Swift's uid (it could reopen donated files), other tenants"),
    Row("HostConfig.CapDrop", _fixed(["ALL"]), "every privilege of root that a bug might bring back"),
    Row("HostConfig.SecurityOpt", _fixed(["no-new-privileges"]), "privileges through setuid files and file capabilities"),
    Row("HostConfig.Privileged", _fixed(value=False), "a default of the engine that is weaker than this table"),
    Row("HostConfig.ReadonlyRootfs", _fixed(value=True), "a filled disk; code that is left for the tenant's next storlet"),
    # exec is allowed here on purpose: whoever can upload code needs no executable file to run more of it (an
    # interpreter and memfd_create do as well), while Java libraries with native parts unpack them here and load them.
    Row("HostConfig.Tmpfs", _scratch, "a filled disk or inode table, device files and setuid files"),
    Row("HostConfig.Mounts", _mounts, "writing to code or to the control directory; seeing any other path of the host"),
    Row("HostConfig.NetworkMode", _fixed("none"), "any network, the cloud's metadata address, abstract sockets of the host"),
    Row("NetworkDisabled", _fixed(value=True), "a network that is attached later"),
    Row("HostConfig.IpcMode", _fixed("private"), "shared memory and message queues of others"),
    Row("HostConfig.ShmSize", _fixed(1024 * 1024), "a second scratch beside /tmp; semaphores of Python's fit in it"),
    Row("HostConfig.PidMode", _fixed(""), "seeing or signalling processes of the host"),
    Row("HostConfig.UTSMode", _fixed(""), "the host's name"),
    Row("Hostname", _fixed("sandbox"), "the host's name and the sandbox's id, as something to tell nodes apart by"),
    Row("HostConfig.CgroupnsMode", _fixed("private"), "the host's control groups"),
    Row("HostConfig.PidsLimit", lambda f: f.pids, "fork bombs and thread bombs", needs="PidsLimit"),
    Row("HostConfig.Memory", lambda f: f.memory_bytes, "memory bombs", needs="MemoryLimit"),
    Row("HostConfig.MemorySwap", lambda f: f.memory_bytes, "swapping in place of being stopped", needs="SwapLimit"),
    Row("HostConfig.NanoCpus", lambda f: int(f.cpus * 1e9) or None, "endless loops on every core", needs="CpuCfsQuota"),
    Row("HostConfig.OomScoreAdj", _fixed(OOM_SCORE_ADJ), "Swift being the kernel's victim when the host is out of memory"),
    Row("HostConfig.Ulimits", _ulimits, "a full table of open files, core files, pinned memory, queues in the kernel"),
    Row("HostConfig.Init", _fixed(value=False), "a PID 1 that is not our supervisor and would let orphans live"),
    Row("HostConfig.RestartPolicy", _fixed({"Name": "no"}), "a sandbox that runs without sandboxd knowing"),
    Row("HostConfig.LogConfig", _fixed({"Type": "none"}), "a disk filled through stdout; tenant output in operators' logs"),
    Row("HostConfig.AutoRemove", _fixed(value=False), "an end whose exit code nobody could ask for"),
    Row("Healthcheck", _fixed({"Test": ["NONE"]}), "commands that an image would have the engine run inside"),
    Row("WorkingDir", _fixed(SCRATCH), "relative paths that fail because / is read-only"),
    Row("Env", _fixed(["LANG=C.UTF-8", f"HOME={SCRATCH}"]), "names of files and text that break on the C locale"),
    Row("Tty", _fixed(value=False), "terminal escapes"),
    Row("OpenStdin", _fixed(value=False), "a writer to the supervisor's input"),
    Row("HostConfig.Runtime", lambda f: f.runtime, "the kernel's own attack surface, when the operator names runsc or kata"),
)  # fmt: skip


def missing(host: Mapping[str, Any]) -> list[Row]:
    """Rows that this host cannot have; ``host`` is Docker's ``/info``."""
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
        target[key] = value
    return body


def arguments_hash(body: Mapping[str, Any]) -> str:
    """Short hash of everything a container was made with; another hash means that it must not be adopted."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
