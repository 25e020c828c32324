"""The comparison of a running sandbox with its plan: its kernel's report against ``hardening.py``.

Docker accepts arguments that the kernel, the runtime or an older Docker then silently drops.  So
the supervisor of a sandbox sends the files of ``storlet_daemon/inspection.py`` before any code of a
tenant is loaded.  :func:`faults` returns in which of the :data:`CHECKS` the sandbox is *weaker*
than configured; such a sandbox is killed and reported.

Limits that a host cannot enforce (``hardening.missing``) are not compared: sandboxd logs them at
its start.  A runtime with a kernel of its own (gVisor, Kata) limits its sandboxes from outside, and
the files of its own kernel show less: there, only the checks marked for it are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware.sandboxd import hardening
from storlet_middleware.sandboxd.hardening import SandboxFacts

#: Prefixes of the runtimes whose sandboxes have a kernel of their own.
OWN_KERNEL: Final = ("runsc", "kata", "io.containerd.runsc", "io.containerd.kata")
_CGROUP: Final = "/sys/fs/cgroup"
#: Mount points that may be writable.  All except the scratch, the homes and the two small shared
#: memories belong to root, and /proc checks permissions per file.
_WRITABLE: Final = frozenset(
    (hardening.SCRATCH, hardening.HOMES, hardening.SHARED_MEMORY, "/proc", "/dev", "/dev/pts",
     "/dev/mqueue", _CGROUP)
)  # fmt: skip
#: The loopback, and devices that a kernel with built-in tunnels makes in each network namespace;
#: these are never up.
_INTERFACES: Final = frozenset(
    "lo sit0 tunl0 gre0 gretap0 erspan0 ip_vti0 ip6_vti0 ip6tnl0 ip6gre0".split()  # noqa: SIM905  a list to read
)
_CAPABILITY_BITS: Final = {"SETGID": 6, "SETUID": 7, "SETPCAP": 8}
_PAGE_MAX: Final = 64 * 1024


@dataclass(frozen=True)
class MountPoint:
    """A line of ``mountinfo``: ``options`` of the mount, ``super_options`` of the file system."""

    path: str
    root: str
    kind: str
    options: frozenset[str]
    super_options: Mapping[str, str]


class Seen:
    """The parsed files of a sandbox.  A missing file is empty, and fails the checks of it."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self.status = dict(_pairs(files.get("/proc/self/status", "")))
        self.limits = {
            line[:25].strip(): line[25:].split()
            for line in files.get("/proc/self/limits", "").splitlines()
        }
        self.mounts = [
            _mount_point(line) for line in files.get("/proc/self/mountinfo", "").splitlines()
        ]

    def number(self, *names: str) -> float | None:
        """The number in the first existing file of a control group; "max" and -1 are infinite."""
        for name in names:
            text = self.files.get(f"{_CGROUP}/{name}", "").strip()
            if text:
                return _number(text)
        return None

    def mount(self, path: str) -> MountPoint | None:
        """The last mount at a path."""
        return next((mount for mount in reversed(self.mounts) if mount.path == path), None)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def _mount_point(line: str) -> MountPoint:
    head, _, tail = line.partition(" - ")
    fields, rest = head.split(), tail.split(maxsplit=2)
    if len(fields) < 6 or len(rest) < 3:
        # Not understood: fails every check.
        return MountPoint("?", "?", "?", frozenset({"rw"}), {})
    options = (option.partition("=") for option in rest[2].split(","))
    return MountPoint(
        path=fields[4],
        root=fields[3],
        kind=rest[0],
        options=frozenset(fields[5].split(",")),
        super_options={name: value for name, _, value in options},
    )


def _number(text: str) -> float | None:
    if text in {"max", "unlimited", "-1"}:
        return float("inf")
    return float(text) if text.isdigit() else None


def _size(mount: MountPoint) -> float:
    """The size of a tmpfs in bytes; infinite when it has no such option."""
    text = mount.super_options.get("size", "")
    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:].lower(), 1)
    digits = text.rstrip("kKmMgG")
    return int(digits) * unit if digits.isdigit() else float("inf")


# --- the checks: each yields its weaknesses -------------------------------------------------------


def _at_most(what: str, seen: float | None, wanted: float) -> Iterator[str]:
    if seen is None:
        yield f"{what} cannot be read, should be {wanted:.12g}"
    elif seen > wanted:
        found = "without limit" if seen == float("inf") else f"{seen:.12g}"
        yield f"{what} is {found}, should be {wanted:.12g}"


def _user(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    for name, wanted in (("Uid", facts.uid), ("Gid", facts.gid)):
        found = seen.status.get(name, "").split()
        if found != [str(wanted)] * 4:
            yield f"{name} is {' '.join(found) or 'unknown'}, should be {wanted}"
    strangers = set(seen.status.get("Groups", "").split()) - {str(facts.gid)}
    if strangers:
        yield f"it is in the groups {' '.join(sorted(strangers))}"


def _capabilities(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    spare = sum(1 << bit for bit in _CAPABILITY_BITS.values()) if facts.is_spare else 0
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        text = seen.status.get(name, "")
        try:
            surplus = int(text, 16) & ~spare
        except ValueError:
            yield f"{name} cannot be read"
            continue
        if surplus:
            yield f"{name} has {surplus:#x}, should be {spare:#x}"


def _no_new_privileges(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    if seen.status.get("NoNewPrivs") != "1":
        yield f"NoNewPrivs is {seen.status.get('NoNewPrivs', 'unknown')}, should be 1"


def _system_calls(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    if seen.status.get("Seccomp") != "2":
        yield f"Seccomp is {seen.status.get('Seccomp', 'unknown')}, should be 2: a filter"


def _root(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    mount = seen.mount("/")
    if mount is None or "ro" not in mount.options:
        yield "the root file system is not read-only"


def _tmpfs(path: str, size: int, seen: Seen) -> Iterator[str]:
    mount = seen.mount(path)
    if mount is None or mount.kind != "tmpfs":
        yield f"{path} is no tmpfs"
        return
    if not {"nosuid", "nodev"} <= mount.options:
        yield f"{path} is mounted without nosuid, nodev"
    # The kernel counts in pages.
    yield from _at_most(f"the size of {path}", _size(mount), -(-size // _PAGE_MAX) * _PAGE_MAX)


def _scratch(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    for path, size, inodes in (
        (hardening.SCRATCH, facts.scratch_bytes, hardening.SCRATCH_INODES),
        (hardening.HOMES, facts.scratch_bytes, hardening.SCRATCH_INODES),
        (hardening.SHARED_MEMORY, hardening.SHM_BYTES, hardening.SHM_INODES),
    ):
        yield from _tmpfs(path, size, seen)
        mount = seen.mount(path)
        found = _number(mount.super_options.get("nr_inodes", "")) if mount is not None else None
        yield from _at_most(f"nr_inodes of {path}", found, inodes)


def _mounts(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    ours = (
        (hardening.CONTROL_TARGET,)
        if facts.code_dir is None
        else (hardening.CONTROL_TARGET, hardening.CODE_TARGET)
    )
    for path in (*ours, *(mount.target for mount in facts.mounts)):
        if seen.mount(path) is None:
            yield f"{path} is not mounted"
    may_write = {"/", *_WRITABLE, *(mount.target for mount in facts.mounts if mount.is_writable)}
    for mount in seen.mounts:
        # A path that is masked by /dev/null looks writable, and takes what is written for nothing.
        is_mask = mount.root == "/null" and mount.path.startswith(("/proc/", "/sys/"))
        if "ro" not in mount.options and mount.path not in may_write and not is_mask:
            yield f"{mount.path} is writable"


def _masks(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    for path in ("/proc/interrupts", "/proc/diskstats"):
        if seen.files.get(path):
            yield f"{path} is not masked"


def _interfaces(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    if facts.has_network:
        return
    text = seen.files.get("/proc/net/dev", "")
    names = {line.partition(":")[0].strip() for line in text.splitlines() if ":" in line}
    if not text:
        yield "its network interfaces cannot be read"
    if names - _INTERFACES:
        yield f"it has the network interfaces {' '.join(sorted(names - _INTERFACES))}"


def _processes(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    if seen.status.get("NSpid") != "1":
        yield f"its pid is {seen.status.get('NSpid', 'unknown')}: the pid namespace is not its own"


def _control_groups(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    text = seen.files.get("/proc/self/cgroup", "")
    paths = {line.split(":", 2)[-1] for line in text.splitlines()}
    if not paths or not paths <= {"/", "/init"}:
        yield "it sees the host's control groups"


def _pids(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    yield from _at_most("pids.max", seen.number("pids.max", "pids/pids.max"), facts.pids)


def _memory(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    yield from _at_most(
        "memory", seen.number("memory.max", "memory/memory.limit_in_bytes"), facts.memory_bytes
    )


def _swap(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    if seen.number("memory.max") is not None:
        yield from _at_most("swap", seen.number("memory.swap.max"), 0)
    else:
        yield from _at_most(
            "memory and swap", seen.number("memory/memory.memsw.limit_in_bytes"), facts.memory_bytes
        )


def _cpus(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    if not facts.cpus:
        return
    quota, _, period = seen.files.get(f"{_CGROUP}/cpu.max", "").strip().partition(" ")
    if not quota:
        quota = seen.files.get(f"{_CGROUP}/cpu/cpu.cfs_quota_us", "").strip()
        period = seen.files.get(f"{_CGROUP}/cpu/cpu.cfs_period_us", "").strip()
    spent, of = _number(quota), _number(period)
    yield from _at_most("CPUs", spent / of if spent is not None and of else None, facts.cpus + 1e-6)


def _ulimits(facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    names = {
        "nofile": "Max open files",
        "core": "Max core file size",
        "msgqueue": "Max msgqueue size",
        "memlock": "Max locked memory",
    }
    for name, wanted in hardening.ulimits(facts).items():
        values = seen.limits.get(names[name], [])
        yield from _at_most(names[name], _number(values[1]) if len(values) > 1 else None, wanted)


def _oom_score(_facts: SandboxFacts, seen: Seen) -> Iterator[str]:
    text = seen.files.get("/proc/self/oom_score_adj", "").strip()
    if not text.isdigit() or int(text) < hardening.OOM_SCORE_ADJ:
        yield f"oom_score_adj is {text or 'unknown'}, should be {hardening.OOM_SCORE_ADJ}"


@dataclass(frozen=True)
class Check:
    """The check of one row; ``row`` is its path in ``hardening.TABLE``."""

    row: str
    weaker: Callable[[SandboxFacts, Seen], Iterator[str]]
    holds_under_own_kernel: bool = False


CHECKS: Final = (
    Check("User", _user, holds_under_own_kernel=True),
    Check("HostConfig.CapDrop", _capabilities, holds_under_own_kernel=True),
    Check("HostConfig.SecurityOpt", _no_new_privileges),
    Check("HostConfig.SecurityOpt", _system_calls),
    Check("HostConfig.ReadonlyRootfs", _root),
    Check("HostConfig.Tmpfs", _scratch),
    Check("HostConfig.Mounts", _mounts),
    Check("HostConfig.MaskedPaths", _masks),
    Check("HostConfig.NetworkMode", _interfaces, holds_under_own_kernel=True),
    Check("HostConfig.PidMode", _processes),
    Check("HostConfig.CgroupnsMode", _control_groups),
    Check("HostConfig.PidsLimit", _pids),
    Check("HostConfig.Memory", _memory),
    Check("HostConfig.MemorySwap", _swap),
    Check("HostConfig.NanoCpus", _cpus),
    Check("HostConfig.OomScoreAdj", _oom_score),
    Check("HostConfig.Ulimits", _ulimits),
)


def faults(facts: SandboxFacts, files: Mapping[str, str], host: Mapping[str, Any]) -> list[str]:
    """The weaknesses of a sandbox compared with ``facts``; ``host`` is Docker's ``/info``."""
    seen = Seen(files)
    absent = {row.path for row in hardening.missing(host)}
    has_own_kernel = facts.runtime.startswith(OWN_KERNEL)
    found = [
        f"{check.row}: {weaker}"
        for check in CHECKS
        if check.row not in absent and (check.holds_under_own_kernel or not has_own_kernel)
        for weaker in check.weaker(facts, seen)
    ]
    return found + (_app_armor(seen, host) if not has_own_kernel else [])


def _app_armor(seen: Seen, host: Mapping[str, Any]) -> list[str]:
    """The check of Docker's AppArmor profile, which has no row, where the host has AppArmor."""
    has_it = any("name=apparmor" in str(option) for option in host.get("SecurityOptions") or ())
    profile = seen.files.get("/proc/self/attr/current", "").strip("\0\n ")
    return (
        [f"AppArmor: the profile is {profile or 'unknown'}"]
        if has_it and not profile.endswith("(enforce)")
        else []
    )
