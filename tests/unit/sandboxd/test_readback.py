"""The actual sandbox against the requested one: every weaker property is reported, and no other."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

import pytest

from storlet_daemon import inspection
from storlet_daemon.protocol import framing, messages
from storlet_middleware.config import Mount
from storlet_middleware.sandboxd import hardening, readback

FACTS = hardening.SandboxFacts(
    image_id="sha256:1", uid=200000, gid=200000, control_dir="/run/storlets/c/k", code_dir="/var/lib/storlets/code/t",
    runtime="runc", memory_bytes=1 << 30, cpus=0.5, pids=64, open_files=256, scratch_bytes=1 << 20,
)  # fmt: skip
HOST = {
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    hardening.CGROUPS_IN_SIGHT: True,
}

STATUS = """\
Name:\tstorlets
Uid:\t200000\t200000\t200000\t200000
Gid:\t200000\t200000\t200000\t200000
Groups:\t200000\x20
NSpid:\t1
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
"""
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units     \n\
Max core file size        0                    0                    bytes     \n\
Max open files            256                  256                  files     \n\
Max locked memory         65536                65536                bytes     \n\
Max msgqueue size         0                    0                    bytes     \n\
Max nice priority         0                    0                    \n\
"""
MOUNTS = """\
148 122 0:60 / / ro,relatime master:3 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d
149 148 0:63 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
150 148 0:64 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
151 150 0:65 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5,mode=620,ptmxmode=666
152 148 0:66 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
153 152 0:67 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755
154 153 0:29 /docker/2fc1 /sys/fs/cgroup/cpu ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu
163 150 0:62 / /dev/mqueue rw,nosuid,nodev,noexec,relatime - mqueue mqueue rw
164 150 0:68 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,size=1024k,nr_inodes=1024
164 148 0:70 / /homes rw,nosuid,nodev,relatime - tmpfs tmpfs rw,size=1024k,nr_inodes=8192,mode=700,uid=200000,gid=200000
165 148 0:69 / /tmp rw,nosuid,nodev,relatime - tmpfs tmpfs rw,size=1024k,nr_inodes=8192,mode=700,uid=200000,gid=200000
166 148 254:0 /run/storlets/c/k /run/storlets ro,relatime - ext4 /dev/vda rw,discard
167 148 254:0 /var/lib/storlets/code/t /var/lib/storlets ro,relatime - ext4 /dev/vda rw,discard
168 148 254:0 /x/hosts /etc/hosts ro,relatime - ext4 /dev/vda rw,discard
126 149 0:63 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw
128 149 0:64 /null /proc/keys rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
"""
INTERFACES = "Inter-|   Receive\n face |bytes\n    lo:       0       0\n"
CGROUP = "/sys/fs/cgroup"
COMMON = {
    "/proc/self/status": STATUS,
    "/proc/self/limits": LIMITS,
    "/proc/self/mountinfo": MOUNTS,
    "/proc/self/oom_score_adj": "500\n",
    "/proc/self/cgroup": "4:memory:/\n0::/\n",
    "/proc/net/dev": INTERFACES,
    "/proc/interrupts": "",
}
V1 = {
    f"{CGROUP}/memory/memory.limit_in_bytes": f"{1 << 30}\n",
    f"{CGROUP}/memory/memory.memsw.limit_in_bytes": f"{1 << 30}\n",
    f"{CGROUP}/pids/pids.max": "64\n",
    f"{CGROUP}/cpu/cpu.cfs_quota_us": "50000\n",
    f"{CGROUP}/cpu/cpu.cfs_period_us": "100000\n",
}
V2 = {
    f"{CGROUP}/memory.max": f"{1 << 30}\n",
    f"{CGROUP}/memory.swap.max": "0\n",
    f"{CGROUP}/pids.max": "64\n",
    f"{CGROUP}/cpu.max": "50000 100000\n",
}
GOOD = {**COMMON, **V1}


def changed(path: str, old: str, new: str) -> dict[str, str]:
    assert old in GOOD[path]
    return {**GOOD, path: GOOD[path].replace(old, new, 1)}


@pytest.mark.parametrize("groups", [V1, V2])
def test_a_sandbox_as_requested_has_no_fault(groups: dict[str, str]) -> None:
    assert readback.faults(FACTS, {**COMMON, **groups}, HOST) == []


def test_a_stricter_sandbox_has_no_fault() -> None:
    files = {**GOOD, f"{CGROUP}/pids/pids.max": "10\n", "/proc/self/oom_score_adj": "900\n"}
    assert readback.faults(FACTS, files, HOST) == []


WEAKER = [
    ("/proc/self/status", "Uid:\t200000", "Uid:\t0", "User", "Uid is 0 200000"),
    ("/proc/self/status", "Gid:\t200000", "Gid:\t65534", "User", "Gid is 65534"),
    ("/proc/self/status", "Groups:\t200000", "Groups:\t0 200000", "User", "in the groups 0"),
    ("/proc/self/status", "CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb", "HostConfig.CapDrop", "0xa80425fb"),
    ("/proc/self/status", "CapAmb:\t0000000000000000", "CapAmb:\t0000000000000400", "HostConfig.CapDrop", "CapAmb has 0x400"),
    ("/proc/self/status", "NoNewPrivs:\t1", "NoNewPrivs:\t0", "HostConfig.SecurityOpt", "NoNewPrivs is 0"),
    ("/proc/self/status", "Seccomp:\t2", "Seccomp:\t0", "HostConfig.SecurityOpt", "Seccomp is 0"),
    ("/proc/self/status", "NSpid:\t1", "NSpid:\t4711", "HostConfig.PidMode", "4711"),
    ("/proc/self/mountinfo", "/ / ro,", "/ / rw,", "HostConfig.ReadonlyRootfs", "not read-only"),
    ("/proc/self/mountinfo", "/tmp rw,nosuid,nodev", "/tmp rw,nosuid", "HostConfig.Tmpfs", "without nosuid, nodev"),
    ("/proc/self/mountinfo", "rw,size=1024k,nr_inodes", "rw,size=2048k,nr_inodes", "HostConfig.Tmpfs", "2097152"),
    ("/proc/self/mountinfo", "rw,size=1024k,nr_inodes", "rw,nr_inodes", "HostConfig.Tmpfs", "without limit"),
    ("/proc/self/mountinfo", "nr_inodes=8192", "nr_inodes=0k", "HostConfig.Tmpfs", "nr_inodes"),
    ("/proc/self/mountinfo", "/ /tmp rw,nosuid,nodev,relatime - tmpfs", "/x /tmp rw,relatime - ext4", "HostConfig.Tmpfs", "no tmpfs"),
    ("/proc/self/mountinfo", "size=1024k,nr_inodes=1024", "size=65536k,nr_inodes=1024", "HostConfig.Tmpfs", "67108864"),
    ("/proc/self/mountinfo", "nr_inodes=1024", "nr_inodes=0k", "HostConfig.Tmpfs", "nr_inodes of /dev/shm"),
    ("/proc/self/mountinfo", "/var/lib/storlets ro,", "/var/lib/storlets rw,", "HostConfig.Mounts", "/var/lib/storlets is writable"),
    ("/proc/self/mountinfo", "/run/storlets ro,", "/run/storlets rw,", "HostConfig.Mounts", "/run/storlets is writable"),
    ("/proc/self/mountinfo", "/etc/hosts ro,", "/etc/hosts rw,", "HostConfig.Mounts", "/etc/hosts is writable"),
    ("/proc/self/mountinfo", "/sys ro,", "/sys rw,", "HostConfig.Mounts", "/sys is writable"),
    ("/proc/self/mountinfo", "/code/t /var/lib/storlets ro", "/code/t /elsewhere ro", "HostConfig.Mounts", "not mounted"),
    ("/proc/self/mountinfo", "168 148 254:0", "168", "HostConfig.Mounts", "is writable"),
    ("/proc/net/dev", "    lo:", "  eth0: 1\n    lo:", "HostConfig.NetworkMode", "eth0"),
    ("/proc/self/cgroup", "memory:/", "memory:/docker/ab", "HostConfig.CgroupnsMode", "host's control groups"),
    (f"{CGROUP}/pids/pids.max", "64", "max", "HostConfig.PidsLimit", "without limit, should be 64"),
    (f"{CGROUP}/pids/pids.max", "64", "65", "HostConfig.PidsLimit", "65, should be 64"),
    (f"{CGROUP}/memory/memory.limit_in_bytes", str(1 << 30), str((1 << 63) - 4096), "HostConfig.Memory", "should be 1073741824"),
    (f"{CGROUP}/memory/memory.memsw.limit_in_bytes", str(1 << 30), str(2 << 30), "HostConfig.MemorySwap", "2147483648"),
    (f"{CGROUP}/cpu/cpu.cfs_quota_us", "50000", "-1", "HostConfig.NanoCpus", "without limit"),
    (f"{CGROUP}/cpu/cpu.cfs_quota_us", "50000", "60000", "HostConfig.NanoCpus", "0.6"),
    ("/proc/self/oom_score_adj", "500", "0", "HostConfig.OomScoreAdj", "is 0, should be 500"),
    ("/proc/self/limits", "256                  256", "256                  unlimited", "HostConfig.Ulimits", "Max open files"),
    ("/proc/self/limits", "0                    0                    bytes", "0                    unlimited            bytes",
     "HostConfig.Ulimits", "Max core file size"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "old", "new", "row", "text"), WEAKER)
def test_a_weaker_sandbox_is_named_with_the_row(
    path: str, old: str, new: str, row: str, text: str
) -> None:
    found = readback.faults(FACTS, changed(path, old, new), HOST)
    assert [fault.partition(": ")[0] for fault in found] == [row]
    assert text in found[0]


@pytest.mark.parametrize("path", sorted(set(GOOD) - {"/proc/interrupts"}))
def test_a_file_that_is_missing_is_a_fault(path: str) -> None:
    """A supervisor with an incomplete report must not pass as a sound sandbox."""
    assert readback.faults(FACTS, {name: text for name, text in GOOD.items() if name != path}, HOST)


def test_nothing_at_all_is_a_fault_of_nearly_every_check() -> None:
    rows = {fault.partition(":")[0] for fault in readback.faults(FACTS, {}, HOST)}
    assert rows == {check.row for check in readback.CHECKS} - {"HostConfig.MaskedPaths"}


@pytest.mark.parametrize(
    "files", [dict.fromkeys(GOOD, "\x00garbage �\n" * 9), dict.fromkeys(GOOD, ":"), {"": ""}]
)
def test_garbage_is_a_fault_and_no_error(files: dict[str, str]) -> None:
    assert readback.faults(FACTS, files, HOST)


def test_unmasked_paths_are_named() -> None:
    assert readback.faults(FACTS, {**GOOD, "/proc/diskstats": "8 0 sda 1 2 3\n"}, HOST) == [
        "HostConfig.MaskedPaths: /proc/diskstats is not masked"
    ]


def test_swap_of_version_2_is_off() -> None:
    files = {**COMMON, **V2, f"{CGROUP}/memory.swap.max": "max\n"}
    assert readback.faults(FACTS, files, HOST) == [
        "HostConfig.MemorySwap: swap is without limit, should be 0"
    ]


@pytest.mark.parametrize(
    ("lacking", "path"),
    [
        ("SwapLimit", f"{CGROUP}/memory/memory.memsw.limit_in_bytes"),
        ("PidsLimit", f"{CGROUP}/pids/pids.max"),
        ("CpuCfsQuota", f"{CGROUP}/cpu/cpu.cfs_quota_us"),
    ],
)
def test_limits_that_the_host_cannot_enforce_are_not_compared(lacking: str, path: str) -> None:
    files = {name: text for name, text in GOOD.items() if name != path}
    assert readback.faults(FACTS, files, HOST)
    assert readback.faults(FACTS, files, {**HOST, lacking: False}) == []


def test_no_quota_is_requested_when_none_is_configured() -> None:
    files = {**GOOD, f"{CGROUP}/cpu/cpu.cfs_quota_us": "-1\n"}
    assert readback.faults(dataclasses.replace(FACTS, cpus=0), files, HOST) == []


def test_a_class_has_the_writable_mounts_and_network_of_its_configuration() -> None:
    mounts = (
        Mount("/srv/out", "/out", is_writable=True),
        Mount("/srv/in", "/in", is_writable=False),
    )
    facts = dataclasses.replace(FACTS, mounts=mounts, network="storage")
    lines = "170 148 254:0 /srv/out /out rw - ext4 /dev/vda rw\n171 148 254:0 /srv/in /in ro - ext4 /dev/vda rw\n"
    files = {
        **GOOD,
        "/proc/self/mountinfo": MOUNTS + lines,
        "/proc/net/dev": INTERFACES + "  eth0: 1\n",
    }
    assert readback.faults(facts, files, HOST) == []
    files["/proc/self/mountinfo"] = files["/proc/self/mountinfo"].replace("/in ro", "/in rw")
    assert readback.faults(facts, files, HOST) == ["HostConfig.Mounts: /in is writable"]


def test_a_pre_warmed_sandbox_is_root_with_three_capabilities_until_it_is_assigned() -> None:
    spare = dataclasses.replace(FACTS, uid=0, gid=0, code_dir=None, is_spare=True)
    status = STATUS.replace("200000", "0")
    for name in ("CapPrm", "CapEff", "CapBnd"):
        status = status.replace(f"{name}:\t0000000000000000", f"{name}:\t00000000000001c0")
    mounts = "".join(
        line + "\n" for line in MOUNTS.splitlines() if " /var/lib/storlets " not in line
    )
    files = {**GOOD, "/proc/self/status": status, "/proc/self/mountinfo": mounts}
    assert readback.faults(spare, files, HOST) == []
    assert {fault.partition(":")[0] for fault in readback.faults(FACTS, files, HOST)} == {
        "User", "HostConfig.CapDrop", "HostConfig.Mounts",
    }  # fmt: skip
    more = {**files, "/proc/self/status": status.replace("00000000000001c0", "00000000002001c0")}
    assert "HostConfig.CapDrop: CapPrm has 0x200000" in readback.faults(spare, more, HOST)[0]


@pytest.mark.parametrize("runtime", ["runsc", "runsc-kvm", "kata-runtime", "io.containerd.kata.v2"])
def test_a_runtime_with_its_own_kernel_has_fewer_checks(runtime: str) -> None:
    facts = dataclasses.replace(FACTS, runtime=runtime)
    files = {path: GOOD[path] for path in ("/proc/self/status", "/proc/net/dev")}
    assert readback.faults(facts, files, HOST) == []
    files["/proc/self/status"] = STATUS.replace("Uid:\t200000", "Uid:\t0")
    assert readback.faults(facts, files, HOST)


@pytest.mark.parametrize(
    ("profile", "is_fine"),
    [("docker-default (enforce)\n", True), ("unconfined\n", False), ("", False)],
)
def test_app_armor_is_compared_where_the_host_has_it(profile: str, *, is_fine: bool) -> None:
    host = {**HOST, "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"]}
    assert (
        readback.faults(FACTS, {**GOOD, "/proc/self/attr/current": profile}, host) == []
    ) is is_fine


#: Rows that no file inside can show, each with what shows it instead.
NOT_READ_BACK = {
    "Image": "Docker starts what the id names",
    "Entrypoint": "the supervisor has said hello",
    "HostConfig.CapAdd": "with CapDrop: the sets are what both leave",
    "HostConfig.Privileged": "capabilities, mounts and masks show it",
    "HostConfig.CgroupParent": "out of sight from inside; tests/probe/test_hardening.py",
    "HostConfig.IpcMode": "a namespace has no name inside; tests/probe/test_hardening.py",
    "HostConfig.UTSMode": "the same",
    "Hostname": "a name",
    "NetworkDisabled": "with NetworkMode",
    "HostConfig.Init": "process 1 has said hello",
    "HostConfig.RestartPolicy": "a matter of what happens later",
    "HostConfig.LogConfig": "Docker's own doing; tests/probe/test_containment.py",
    "HostConfig.AutoRemove": "a matter of what happens later",
    "Healthcheck": "a matter of what happens later",
    "WorkingDir": "no limit",
    "Env": "no limit",
    "Tty": "no limit",
    "OpenStdin": "no limit",
    "HostConfig.Runtime": "Docker refuses one that it does not know",
}


def test_every_row_of_the_table_is_read_back_or_has_a_reason() -> None:
    compared = {check.row for check in readback.CHECKS}
    assert not compared & set(NOT_READ_BACK)
    assert {row.path for row in hardening.TABLE} == compared | set(NOT_READ_BACK)


# --- inside ------------------------


def test_a_sandbox_returns_its_own_kernels_files() -> None:
    files = inspection.read()
    assert (
        {"/proc/self/status", "/proc/self/limits", "/proc/self/cgroup"}
        <= set(files)
        <= set(inspection.FILES)
    )


@pytest.mark.parametrize("content", [b"\n", b"\xff", b"\0", b"x"])
def test_the_files_of_a_sandbox_fit_into_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    names = ["long", "half", "other half", "absent", "short"]
    monkeypatch.setattr(inspection, "FILES", [f"{tmp_path}/{name}" for name in names])
    for name, size in (("long", 1 << 20), ("half", 4000), ("other half", 4000), ("short", 10)):
        (tmp_path / name).write_bytes(content * size)
    files = inspection.read()
    assert set(files) == {f"{tmp_path}/{name}" for name in ("half", "other half", "short")}
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        framing.send(here, messages.Inspected(1, files))
        received = framing.receive(there)
    assert received is not None
    assert received.message(messages.CONTROL_REPORTS).files == files
