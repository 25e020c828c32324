"""A storlet that tries denied system calls and reports each outcome, as JSON by name.

Each call runs in a child process: an unexpected success (traced, in another namespace) or the end
of the process does not affect the other results.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
from collections.abc import Callable
from typing import Any

#: Numbers of x86-64, by name.
DENIED = {
    "acct": 163,
    "add_key": 248,
    "adjtimex": 159,
    "bpf": 321,
    "chroot": 161,
    "clock_adjtime": 305,
    "clock_settime": 227,
    "delete_module": 176,
    "fanotify_init": 300,
    "fanotify_mark": 301,
    "finit_module": 313,
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "fspick": 433,
    "get_kernel_syms": 177,
    "init_module": 175,
    "io_cancel": 210,
    "io_destroy": 207,
    "io_getevents": 208,
    "io_pgetevents": 333,
    "io_setup": 206,
    "io_submit": 209,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "ioperm": 173,
    "iopl": 172,
    "kcmp": 312,
    "kexec_file_load": 320,
    "kexec_load": 246,
    "keyctl": 250,
    "lookup_dcookie": 212,
    "map_shadow_stack": 453,
    "mbind": 237,
    "memfd_secret": 447,
    "migrate_pages": 256,
    "modify_ldt": 154,
    "mount": 165,
    "mount_setattr": 442,
    "move_mount": 429,
    "move_pages": 279,
    "mq_getsetattr": 245,
    "mq_notify": 244,
    "mq_open": 240,
    "mq_timedreceive": 243,
    "mq_timedsend": 242,
    "mq_unlink": 241,
    "msgctl": 71,
    "msgget": 68,
    "msgrcv": 70,
    "msgsnd": 69,
    "name_to_handle_at": 303,
    "nfsservctl": 180,
    "open_by_handle_at": 304,
    "open_tree": 428,
    "perf_event_open": 298,
    "pidfd_getfd": 438,
    "pivot_root": 155,
    "process_madvise": 440,
    "process_mrelease": 448,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "ptrace": 101,
    "query_module": 178,
    "quotactl": 179,
    "quotactl_fd": 443,
    "reboot": 169,
    "request_key": 249,
    "seccomp": 317,
    "semctl": 66,
    "semget": 64,
    "semop": 65,
    "semtimedop": 220,
    "set_mempolicy": 238,
    "set_mempolicy_home_node": 450,
    "setdomainname": 171,
    "sethostname": 170,
    "setns": 308,
    "settimeofday": 164,
    "shmat": 30,
    "shmctl": 31,
    "shmdt": 67,
    "shmget": 29,
    "swapoff": 168,
    "swapon": 167,
    "sync": 162,
    "syncfs": 306,
    "sysfs": 139,
    "syslog": 103,
    "umount2": 166,
    "unshare": 272,
    "uselib": 134,
    "userfaultfd": 323,
    "ustat": 136,
    "vhangup": 153,
    "vmsplice": 278,
}
NAMESPACES = {
    "clone newuser": 0x10000000, "clone newns": 0x20000, "clone newpid": 0x20000000, "clone newnet": 0x40000000,
    "clone newcgroup": 0x2000000, "clone newuts": 0x4000000, "clone newipc": 0x8000000,
}  # fmt: skip
HIGH = 1 << 32
LIBC = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int) -> str:
    """The error's name, or the result."""
    given = [ctypes.c_long(argument) for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    ctypes.set_errno(0)
    LIBC.syscall.restype = ctypes.c_long
    result = LIBC.syscall(ctypes.c_long(number), *given)
    if result == -1 and ctypes.get_errno():
        return os.strerror(ctypes.get_errno())
    if result == 0 and number == 56:
        os._exit(0)  # the child of a successful clone
    return f"got {result}"


def old_call() -> str:
    """getppid by the 32-bit convention, which numbers calls differently: a filter must distinguish
    them."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x40\x00\x00\x00\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return f"got {ctypes.CFUNCTYPE(ctypes.c_int)(address)()}"


def apart(attempt: Callable[[], str]) -> str:
    """The report of a child, or the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(attempt()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        text = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else text


class Caller:
    """See the module."""

    def __init__(self, logger: Any) -> None:
        pass

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        fd = in_files[0].fileno()
        attempts: dict[str, tuple[int, ...]] = {name: (number,) for name, number in DENIED.items()}
        attempts |= {name: (56, flags | signal.SIGCHLD) for name, flags in NAMESPACES.items()}
        attempts |= {f"socket {family}": (41, family, 1, 0) for family in (2, 10, 16, 17, 38, 40)}
        attempts |= {
            "clone3": (435, 0, 0),
            "socketpair inet": (53, 2, 1, 0),
            "socket inet, high bits": (41, 2 | HIGH, 1, 0),
            "personality": (135, 0x40000),
            "ioctl: type into a terminal": (16, 0, 0x5412, 0),
            "ioctl: the same, high bits": (16, 0, 0x5412 | HIGH, 0),
            "ioctl: the object's flags": (16, fd, 0x80086601, 0),
            "ioctl: the object's extents": (16, fd, 0xC020660B, 0),
            "x32": (0x40000000 | 110,),
        }
        found = {name: apart(lambda given=given: call(*given)) for name, given in attempts.items()}
        found["int 0x80"] = apart(old_call)
        try:
            found["attributes of the object"] = f"got {os.listxattr(fd)}"
        except OSError as error:
            found["attributes of the object"] = error.strerror
        out_files[0].write(json.dumps(found).encode())
