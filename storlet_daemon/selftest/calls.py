"""System calls that no storlet needs, called by number so that only the kernel can refuse them.

The arguments make a kernel that executes the call do no harm and return any error but the refusals
below: ``EINVAL`` for flags that do not exist, ``EBADF`` for descriptor -1, ``EFAULT`` for no
address. So a result that is no refusal shows that the filter let the call through, whether or not
it would have worked with better arguments. A kernel that checks privileges first returns ``EPERM``
by itself; hostile code gets no further there either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
from collections.abc import Callable

from storlet_daemon.protocol.values import dataclass
from storlet_daemon.selftest.model import Facts, SelfTest, own_folder

REFUSALS = frozenset({errno.EPERM, errno.ENOSYS, errno.EACCES})
MACHINES = ("x86_64", "aarch64")

# PyDLL keeps the interpreter's lock: after a bare clone the child could not reacquire it.
_LIBC = ctypes.PyDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

Argument = int | bytes | None


def call(number: int, *arguments: Argument) -> int:
    """The result of a system call, or minus its errno."""
    ctypes.set_errno(0)
    words = [
        ctypes.c_long(word) if isinstance(word, int) else ctypes.c_char_p(word)
        for word in arguments
    ]
    result: int = _LIBC.syscall(ctypes.c_long(number), *words)
    return result if result >= 0 else -ctypes.get_errno()


def refused(result: int) -> str:
    """ "" for a result that is a refusal, else what the kernel did."""
    if result >= 0:
        return "the kernel did it"
    return "" if -result in REFUSALS else f"not refused: {errno.errorcode.get(-result, result)}"


@dataclass(frozen=True)
class Call:
    """One system call with its number on each of :data:`MACHINES`; 0: there is none."""

    name: str
    numbers: tuple[int, int]
    arguments: tuple[Argument, ...]
    against: str

    def number(self) -> int:
        machine = os.uname().machine
        return self.numbers[MACHINES.index(machine)] if machine in MACHINES else 0

    def attempt(self, _facts: Facts) -> str:
        number = self.number()
        return refused(call(number, *self.arguments)) if number else ""


_NO_FLAGS = 0x7FFF0000
"""Flags that do not exist in any of the calls below."""

CALLS = (
    Call("mount", (165, 40), (b"none", b"/tmp", b"tmpfs", 0, None),
         "hiding and replacing files, mounting the host's disks"),
    Call("umount2", (166, 39), (b"/", 0x100), "uncovering what a mount hides"),
    Call("pivot_root", (155, 41), (b"/nowhere", b"/nowhere"), "another root"),
    Call("chroot", (161, 51), (b"/",), "leaving the root by a second one"),
    Call("open_tree", (428, 428), (-1, b"", 0x1000), "detached mounts"),
    Call("move_mount", (429, 429), (-1, b"", -1, b"", 0),
         "moving detached mounts to where they are seen"),
    Call("fsopen", (430, 430), (b"tmpfs", _NO_FLAGS), "the newer way to mount"),
    Call("fsmount", (432, 432), (-1, 0, 0), "mounts made the newer way"),
    Call("fspick", (433, 433), (-1, b"/", _NO_FLAGS), "changing mounts that are there"),
    Call("mount_setattr", (442, 442), (-1, b"", 0x1000, None, 0),
         "making a read-only mount writable"),
    Call("open_by_handle_at", (304, 265), (-1, None, 0),
         "opening files by inode, past every mount (Shocker)"),
    Call("ptrace", (101, 117), (0, 0, 0, 0), "reading and steering other processes"),
    Call("process_vm_readv", (310, 270), (-1, 0, 0, 0, 0, 0), "reading other processes' memory"),
    Call("process_vm_writev", (311, 271), (-1, 0, 0, 0, 0, 0), "writing it"),
    Call("pidfd_getfd", (438, 438), (-1, 0, 0), "taking descriptors out of other processes"),
    Call("kcmp", (312, 272), (-1, -1, 0, 0, 0), "learning about other processes' kernel objects"),
    Call("userfaultfd", (323, 282), (_NO_FLAGS,),
         "stopping the kernel in the middle of a copy, to win races in it"),
    Call("bpf", (321, 280), (9999, None, 0), "programs in the kernel"),
    Call("io_uring_setup", (425, 425), (0, None),
         "a large and young part of the kernel, past this very filter"),
    Call("io_uring_enter", (426, 426), (-1, 0, 0, 0, None, 0), "the same part of the kernel"),
    Call("io_uring_register", (427, 427), (-1, 9999, None, 0), "the same part of the kernel"),
    Call("keyctl", (250, 219), (9999, 0, 0, 0, 0),
         "the kernel's keys, which no namespace keeps apart"),
    Call("add_key", (248, 217), (None, None, None, 0, 0),
         "the kernel's keys, which no namespace keeps apart"),
    Call("request_key", (249, 218), (None, None, None, 0),
         "programs that the kernel starts to request a key"),
    Call("perf_event_open", (298, 241), (None, 0, -1, -1, 0),
         "watching other processes and the kernel"),
    Call("setns", (308, 268), (-1, 0), "joining namespaces of others"),
    Call("personality", (135, 92), (0x0040000,),
         "memory without random addresses, other kernels' rules"),
    Call("kexec_load", (246, 104), (0, 0, None, _NO_FLAGS), "another kernel"),
    Call("kexec_file_load", (320, 294), (-1, -1, 0, None, _NO_FLAGS), "another kernel"),
    Call("init_module", (175, 105), (None, 0, None), "code in the kernel"),
    Call("finit_module", (313, 273), (-1, None, _NO_FLAGS), "code in the kernel"),
    Call("delete_module", (176, 106), (None, 0), "taking parts of the kernel away"),
    Call("swapon", (167, 224), (None, _NO_FLAGS), "memory beyond the limit"),
    Call("swapoff", (168, 225), (None,), "the host's swap"),
    Call("reboot", (169, 142), (0, 0, 0, None), "the end of the host"),
    Call("sethostname", (170, 161), (None, 9999), "the host's name"),
    Call("acct", (163, 89), (b"/nowhere",), "the host's accounting"),
    Call("quotactl", (179, 60), (0, None, 0, None), "the host's quotas"),
    Call("syslog", (103, 116), (10, None, 0), "the kernel's messages, which name its addresses"),
    Call("clock_settime", (227, 112), (0, None), "the host's clock"),
    Call("iopl", (172, 0), (3,), "the machine's ports"),
    Call("fanotify_init", (300, 262), (_NO_FLAGS, 0), "watching files of others"),
    Call("process_madvise", (440, 440), (-1, None, 0, 0, 0), "other processes' memory"),
)  # fmt: skip

_NAMESPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "time": 0x00000080,
}
_UNSHARE = Call("unshare", (272, 97), (), "")
_CLONE = Call("clone", (56, 220), (), "")
_CLONE3 = Call("clone3", (435, 435), (), "")
_MKNODAT = Call("mknodat", (259, 33), (), "")
_HERE = -100
_CHARACTER_DEVICE = 0o020666
_NULL_DEVICE = 0x103


def _machine(_facts: Facts) -> str:
    machine = os.uname().machine
    return (
        ""
        if machine in MACHINES
        else f"the numbers of the system calls of {machine} are not known here"
    )


def _unshare(_facts: Facts) -> str:
    number = _UNSHARE.number()
    faults = [
        f"{name}: {fault}"
        for name, flag in _NAMESPACES.items()
        if number and (fault := refused(call(number, flag)))
    ]
    return ", ".join(faults)


def _clone(_facts: Facts) -> str:
    """A child in a user namespace of its own, in which it is root."""
    number = _CLONE.number()
    if not number:
        return ""
    result = call(number, _NAMESPACES["user"] | signal.SIGCHLD, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)  # the child
    return refused(result)


def _clone3(_facts: Facts) -> str:
    # Its flags are in memory, where a filter cannot read them, so the call must not exist at all.
    # This size is too small for any flags.
    number = _CLONE3.number()
    return refused(call(number, None, 8)) if number else ""


def _mknod(_facts: Facts) -> str:
    number = _MKNODAT.number()
    if not number:
        return ""
    with own_folder() as folder:
        return refused(
            call(number, _HERE, f"{folder}/null".encode(), _CHARACTER_DEVICE, _NULL_DEVICE)
        )


def _urgent_data(_facts: Facts) -> str:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            ours.send(b"!", socket.MSG_OOB)
        except OSError as error:
            return refused(-(error.errno or 0))
        return "the kernel did it"


_OTHERS: tuple[tuple[str, Callable[[Facts], str], str], ...] = (
    (
        "unshare",
        _unshare,
        "a namespace of its own, in which it would be root and reach more of the kernel",
    ),
    ("clone-user", _clone, "a child in a namespace of its own, in which it would be root"),
    ("clone3", _clone3, "namespaces by flags that no filter can see"),
    ("mknod", _mknod, "a device file of the host's disk"),
    ("urgent-data", _urgent_data, "bugs of the kernel in urgent data on Unix sockets"),
)

TESTS = (
    SelfTest("machine", "a machine on which these tests would test nothing", _machine),
    *(SelfTest(f"syscall-{row.name}", row.against, row.attempt) for row in CALLS),
    *(SelfTest(f"syscall-{name}", against, attempt) for name, attempt, against in _OTHERS),
)
