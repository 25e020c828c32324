"""Files that can be written, read and reached by a path."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator

from storlet_daemon.selftest.model import SCRATCH, Facts, SelfTest, listed, opens, read

#: Writable by design: a megabyte of semaphores, queues that a limit of 0 forbids, the files of each
#: process, terminals that do not exist; folders of root's, whose files have tests of their own.
SPECIAL_MOUNTS = (
    "/dev",
    "/dev/shm",  # noqa: S108  the sandbox's own
    "/dev/mqueue",
    "/dev/pts",
    "/proc",
    "/sys/fs/cgroup",
)
SHARED_MEMORY_BYTES = 1 << 20
SHARED_MEMORY_INODES = 1024
WALK_SECONDS = 1.2
DEVICES = frozenset({"null", "zero", "full", "random", "urandom", "tty", "ptmx"})
SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/dev/log",
    "/run/systemd/journal/socket",
    "/run/dbus/system_bus_socket",
    "/run/storlets/sandboxd.sock",
    "/run/podman/podman.sock",
)
#: Files that change the whole host when they are written.
KERNEL_FILES = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/panic",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/irq/default_smp_affinity",
    "/proc/1/oom_score_adj",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/power/state",
)
#: Files that reveal the host or the kernel's memory.
SECRETS = (
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kpageflags",
    "/dev/kmsg",
    "/dev/mem",
    "/dev/port",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/config.gz",
    "/etc/shadow",
    "/etc/gshadow",
    "/proc/1/environ",
)
SECRET_FOLDERS = (
    "/root",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/pressure",
    "/var/lib/docker",
    "/srv/node",
    "/etc/swift",
)


def mounts() -> dict[str, frozenset[str]]:
    """Options of each mount, its own and its file system's for ``ro``, by path."""
    found = {}
    for line in read("/proc/self/mountinfo").splitlines():
        words, _, system = line.partition(" - ")
        own = words.split()[5].split(",")
        whole = system.split()[2].split(",")
        found[words.split()[4]] = frozenset(own) | ({"ro"} & set(whole))
    return found


def _root(_facts: Facts) -> str:
    return "" if os.statvfs("/").f_flag & os.ST_RDONLY else "/ is mounted for writing"


def _mounts(facts: Facts) -> str:
    allowed = {*SPECIAL_MOUNTS, *facts.writable}
    # One file of a device over another (/proc/kcore is /dev/null) changes nothing.
    writable = [
        path for path, options in mounts().items() if "ro" not in options and path not in allowed
    ]
    return listed(
        [f"{path} is mounted for writing" for path in writable if not _is_character_device(path)]
    )


def _is_character_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def _scratch(_facts: Facts) -> str:
    options = mounts().get(SCRATCH)
    if options is None:
        return f"{SCRATCH} is not a mount of its own"
    return listed(
        [f"{SCRATCH} has no {name}" for name in ("nosuid", "nodev") if name not in options]
    )


def _shared_memory(_facts: Facts) -> str:
    try:
        info = os.statvfs("/dev/shm")  # noqa: S108  see above
    except OSError:
        return ""
    size = info.f_frsize * info.f_blocks
    if size > SHARED_MEMORY_BYTES:
        return f"/dev/shm has {size} bytes"  # noqa: S108  see above
    if not 0 < info.f_files <= SHARED_MEMORY_INODES:
        return f"/dev/shm has {info.f_files or 'any number of'} inodes"  # noqa: S108  see above
    return ""


def _walk(skip: tuple[str, ...]) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Every entry of the file system outside of ``skip``, until the deadline."""
    skipped = frozenset(skip)
    end = time.monotonic() + WALK_SECONDS
    todo = ["/"]
    while todo and time.monotonic() < end:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.path in skipped:
                continue
            yield entry, entry.path
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)


def _writable(facts: Facts) -> str:
    """Try to create a file in each folder, and to open each file, that looks writable."""
    found = [path for path in ("/", "/run/storlets", "/var/lib/storlets") if _can_write(path)]
    for entry, path in _walk(("/proc", "/sys", *SPECIAL_MOUNTS, *facts.writable)):
        # Most are on a read-only mount, so the kernel refuses before it checks the mode.
        if not entry.is_symlink() and os.access(path, os.W_OK) and _can_write(path):
            found.append(path)
            if len(found) > 10:
                break
    return f"can be written to: {listed(found)}" if found else ""


def _can_write(path: str) -> bool:
    if not os.path.isdir(path):
        return opens(path, os.O_WRONLY)
    name = f"{path.rstrip('/')}/.selftest-{os.getpid()}"
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    os.unlink(name)
    return True


def _setuid(facts: Facts) -> str:
    found = []
    for entry, path in _walk(("/proc", "/sys", "/dev", *facts.writable)):
        if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mode & (
            stat.S_ISUID | stat.S_ISGID
        ):
            found.append(path)
    return f"setuid or setgid: {listed(found)}" if found else ""


def _sockets(facts: Facts) -> str:
    """The well-known sockets, and all that exist."""
    found = [path for path in SOCKETS if os.path.exists(path)]
    for entry, path in _walk(("/proc", "/sys", *facts.writable)):
        if not (entry.is_symlink() or entry.is_dir() or entry.is_file()) and stat.S_ISSOCK(
            os.lstat(path).st_mode
        ):
            found.append(path)
    reached = [
        f"{path} answers" if _answers(path) else f"{path} is there" for path in dict.fromkeys(found)
    ]
    return listed(reached)


def _answers(path: str) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            with socket.socket(socket.AF_UNIX, kind) as probe:
                probe.settimeout(0.3)
                probe.connect(path)
        except OSError:
            continue
        return True
    return False


def _devices(facts: Facts) -> str:
    found = []
    for entry, path in _walk(("/proc", "/sys", "/dev/pts", *facts.writable)):
        if entry.is_symlink() or entry.is_dir() or entry.is_file():
            continue
        mode = os.lstat(path).st_mode
        if stat.S_ISBLK(mode) or (
            stat.S_ISCHR(mode) and not (path.startswith("/dev/") and entry.name in DEVICES)
        ):
            found.append(path)
    return listed(found)


def _kernel_files(_facts: Facts) -> str:
    found = [path for path in KERNEL_FILES if opens(path, os.O_WRONLY)]
    return f"can be written to: {listed(found)}" if found else ""


def _settings(_facts: Facts) -> str:
    """All of /proc/sys and /sys, until the deadline."""
    end = time.monotonic() + WALK_SECONDS / 2
    found = []
    tops = ("/proc/sys", "/sys/fs", "/sys/kernel", "/sys/module", "/sys/devices/system", "/sys")
    for top in tops:
        for folder, folders, files in os.walk(top):
            if time.monotonic() > end:
                break
            folders[:] = [name for name in folders if f"{folder}/{name}" not in tops]
            paths = (f"{folder}/{name}" for name in files)
            found += [
                path for path in paths if os.access(path, os.W_OK) and opens(path, os.O_WRONLY)
            ]
    return f"can be written to: {listed(sorted(found))}" if found else ""


def _control_groups(_facts: Facts) -> str:
    found = []
    for folder, _folders, files in os.walk("/sys/fs/cgroup"):
        name = f"{folder}/selftest"
        try:
            os.mkdir(name)
        except OSError:
            pass
        else:
            os.rmdir(name)
            found.append(f"{folder}/")
        found += [
            path for path in (f"{folder}/{file}" for file in files) if opens(path, os.O_WRONLY)
        ]
    return f"can be written to: {listed(found)}" if found else ""


def _secrets(_facts: Facts) -> str:
    found = [
        path
        for path in SECRETS
        if opens(path, os.O_RDONLY) and not os.path.samefile(path, "/dev/null")
    ]
    for path in SECRET_FOLDERS:
        try:
            names = os.listdir(path)
        except OSError:
            continue
        if names:
            found.append(path)
    return f"can be read: {listed(found)}" if found else ""


TESTS = (
    SelfTest("root-read-only", "a filled disk; code left for the tenant's next storlet", _root),
    SelfTest(
        "mounts-read-only", "changing code, the control directory or paths of the host", _mounts
    ),
    SelfTest("scratch-options", "device files and setuid files in the scratch", _scratch),
    SelfTest("scratch-shared-memory", "a second scratch beside the first", _shared_memory),
    SelfTest(
        "files-not-writable",
        "anything that outlives the sandbox or reaches another storlet",
        _writable,
    ),
    SelfTest("files-not-setuid", "privileges through files of the image", _setuid),
    SelfTest("files-no-sockets", "Docker, which is root; the host's log and services", _sockets),
    SelfTest("files-no-devices", "the host's disks and memory", _devices),
    SelfTest("files-of-others", "files of root, of the host or of another tenant", _secrets),
    SelfTest("kernel-files", "the host's kernel, through its files", _kernel_files),
    SelfTest("kernel-settings", "the host's kernel settings", _settings),
    SelfTest("control-groups", "limits that the limited process takes off", _control_groups),
)
