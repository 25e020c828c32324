"""The system calls of a sandbox: an allow-list, narrower than Docker's, as a profile for Docker.

:data:`ALLOWED` is the policy: system calls in groups by purpose.  :func:`profile` makes the profile
of a trust class from it.  All other calls fail with ``EPERM``, so a library that tries one gets a
known error and continues; no process is killed.

**How the list was made.**  Process 1 of real sandboxes was traced with ``strace -f`` while the
functional tests of both languages ran: the supervisor and its workers make 80 different calls.
Then programs were traced that use the features of ordinary code.  For Python: 204 modules of the
standard library, processes by fork, spawn and forkserver, shared memory, asyncio, sqlite, archives,
numpy, pandas and Pillow.  For Java: NIO, watches, locks, mapped files, processes, unix sockets,
crypto, pools and the JIT.  Together these make 135 calls, which a unit test compares with the list.
Further allowed calls are a margin for native libraries: older and newer forms of the same calls,
other waits and clocks, scheduling hints.

**Calls that Docker allows and this profile does not**, because with them a storlet could exceed its
sandbox's limits or load the node's disks:

====================================== =======================================================
``io_setup`` and related               asynchronous I/O is counted for the whole host
                                       (``fs.aio-max-nr``)
``io_uring_*``, ``userfaultfd``, ...   kernel bugs: most recent container escapes used these
``sync``, ``syncfs``                   write all disks of the node, or the donated object's
``shmget``, ``msgget``, ``mq_open``    memory that outlives the worker that allocated it
``ptrace``, ``process_vm_*``, ...      memory and descriptors of the same tenant's processes
``ioctl`` except a few                 a donated object's file system implements hundreds
``fcntl`` except a few                 locks: their memory is counted for no sandbox, and the kernel
                                       lists those of an open file to Swift's process, when it
                                       looks at the position
``setsockopt`` except a few            packet filters: their machine code is counted for no sandbox,
                                       and has one limit for the whole host
``getxattr`` and related               Swift keeps all metadata of an object there; they fail
                                       with ``ENOTSUP``, so ``cp`` and ``shutil`` assume a file
                                       system without attributes
``MSG_OOB`` of ``send`` and ``recv``   urgent data on Unix sockets: unused, with a history of bugs
``socket`` except ``AF_UNIX``          not needed without a network; each family is a subsystem
                                       of the kernel to attack, even without an interface
====================================== =======================================================

**Calls that succeed and do nothing** (:data:`FLUSHES`): ``fsync`` and its like.  A storlet writes
to memory only, where they have nothing to do.  On a donated object, which it cannot change, they
would flush the cache of Swift's disk.

A sandbox that writes into directories of the host has effective calls, because its files last.

``clone`` without ``CLONE_PARENT``: such a child would be the supervisor's, a sibling of its worker.

``clone3`` fails with ``ENOSYS``: its flags are in memory, which a filter cannot read.  The C
library then uses ``clone``, whose flags are in a register; flags that make namespaces are refused.
"""

from __future__ import annotations

import errno
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

ALLOW: Final = "SCMP_ACT_ALLOW"
REFUSE: Final = "SCMP_ACT_ERRNO"

#: Every ``CLONE_NEW*`` flag of ``clone``.  Its lowest byte is the signal at the end, so the bit of
#: ``CLONE_NEWTIME`` is not one.
NAMESPACE_FLAGS: Final = 0x7E020000
CLONE_PARENT: Final = 0x8000
_WORD: Final = 0xFFFFFFFF

AF_UNIX: Final = 1
#: Further families of a sandbox with a network: IPv4, IPv6, and netlink, by which libraries list
#: the interfaces.
NETWORK_FAMILIES: Final = (2, 10, 16)

#: By purpose.
ALLOWED: Final = {
    "files": """
        access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
        faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat
        flock fstat fstatfs ftruncate futimesat getcwd getdents getdents64 lchown link linkat lseek
        lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2
        pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv rename renameat
        renameat2 rmdir sendfile splice stat statfs statx symlink symlinkat tee truncate umask
        unlink unlinkat utime utimensat utimes write writev""",
    "waiting for files, watching directories (Java's WatchService)": """
        epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
        inotify_add_watch inotify_init inotify_init1 inotify_rm_watch pipe pipe2 poll ppoll
        pselect6 select""",
    "memory": """
        brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap
        munlock munlockall munmap get_mempolicy""",
    "processes and threads": """
        arch_prctl execve execveat exit exit_group fork futex futex_requeue futex_wait futex_waitv
        futex_wake get_robust_list getpgid getpgrp getpid getppid getsid gettid kill pidfd_open
        pidfd_send_signal prctl restart_syscall rseq set_robust_list set_tid_address setpgid
        setsid tgkill tkill vfork wait4 waitid""",
    "signals": """
        pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
        rt_sigtimedwait rt_tgsigqueueinfo sigaltstack signalfd signalfd4""",
    "identity and system information": """
        getegid geteuid getgid getgroups getresgid getresuid getuid getcpu getrandom sysinfo uname
        capget""",
    # These change nothing without a capability; a pre-warmed sandbox needs them to become its
    # tenant's user.
    "change of user and group": """
        capset setfsgid setfsuid setgid setgroups setregid setresgid setresuid setreuid setuid""",
    "limits and scheduling, which without a capability can only be lowered": """
        getpriority getrlimit getrusage ioprio_get sched_get_priority_max sched_get_priority_min
        sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
        sched_yield setrlimit times""",
    "time": """
        alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep
        setitimer time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
        timerfd_create timerfd_gettime timerfd_settime""",
    "use of existing sockets": """
        accept accept4 bind connect getpeername getsockname getsockopt listen shutdown""",
    "a storlet that confines itself "
    "further": "landlock_add_rule landlock_create_ruleset landlock_restrict_self",
}

#: Refused with a particular error, which makes ordinary programs use an alternative.
UNSUPPORTED: Final = {
    errno.ENOSYS: "clone3",
    errno.ENOTSUP: """
        fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr
        lremovexattr lsetxattr removexattr setxattr""",
}

#: Calls that may only affect the calling process, by the arguments that must be 0 for that. The
#: supervisor has the same user id: a storlet that lowers the supervisor's limits, priority or
#: processors would starve all other storlets of its tenant.
OWN_ONLY: Final = {
    (0,): "prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler",
    # PRIO_PROCESS first: with PRIO_USER, the second 0 stands for every process of the user id.
    (0, 1): "setpriority",
}

#: Calls that send and receive, by the number of the argument with their flags.  Urgent data
#: (``MSG_OOB``) on Unix sockets has no use, and its implementation had bugs that let programs out
#: of their sandboxes (CVE-2025-38236).
MESSAGES: Final = {2: "recvmsg sendmsg", 3: "recvfrom recvmmsg sendmmsg sendto"}
MSG_OOB: Final = 1

#: Commands of ``fcntl``: duplicates, flags, query of a lock, owner of signals, size of a pipe,
#: seals of memory.
FCNTLS: Final = (*range(6), 8, 9, *range(1030, 1035))
#: ``F_SETLK`` and ``F_SETLKW``.
LOCK_FCNTLS: Final = (6, 7)

#: Calls that flush a file; ``msync`` does with the flag ``MS_SYNC``.
FLUSHES: Final = "fdatasync fsync sync_file_range"
MS_SYNC: Final = 4

#: Options of sockets (``SOL_SOCKET``): address reuse, type, error, broadcast, buffers, keepalive,
#: priority, linger, port reuse, credentials and descriptors of messages, low-water marks, timeouts,
#: time stamps.
SOL_SOCKET: Final = 1
SOCKET_OPTIONS: Final = (2, *range(4, 10), 12, 13, 15, 16, *range(18, 22), 29, 35, 66, 67, 83)
#: Levels of options of a sandbox with a network: IPv4, TCP, UDP, IPv6, netlink.
NETWORK_LEVELS: Final = (0, 6, 17, 41, 270)

#: Requests of ``ioctl``: terminal or not, its width, bytes to read, blocking mode, close on exec.
IOCTLS: Final = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
#: Further requests of a sandbox with a network: queries of interfaces (``SIOCGIF*``).
NETWORK_IOCTLS: Final = (
    0x8910,
    0x8912,
    0x8913,
    0x8915,
    0x8917,
    0x8919,
    0x891B,
    0x8921,
    0x8927,
    0x8933,
    0x8942,
)
#: Arguments of ``personality``: the usual one, and the query of the current one.
PERSONALITIES: Final = (0, _WORD)

#: Calls that no sandbox may ever have: tests compare the list with these, and try each in a real
#: sandbox.
DENIED: Final = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init
    fanotify_mark finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module
    io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter
    io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
    lookup_dcookie map_shadow_stack mbind memfd_secret migrate_pages modify_ldt mount
    mount_setattr move_mount move_pages mq_getsetattr mq_notify mq_open mq_timedreceive
    mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd name_to_handle_at nfsservctl
    open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise
    process_mrelease process_vm_readv process_vm_writev ptrace query_module quotactl quotactl_fd
    reboot request_key seccomp semctl semget semop semtimedop set_mempolicy
    set_mempolicy_home_node setdomainname sethostname setns settimeofday shmat shmctl shmdt shmget
    swapoff swapon sync syncfs sysfs syslog umount2 unshare uselib userfaultfd ustat vhangup
    vmsplice
"""

#: Native calling conventions only: the 32-bit one and x32 number their calls differently; their use
#: kills the process.
_ARCHITECTURES: Final = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")


def allowed() -> frozenset[str]:
    """Names of the calls that are allowed with any arguments."""
    return frozenset(" ".join(ALLOWED.values()).split())


@functools.cache
def profile(
    *, has_network: bool, has_file_locks: bool = False, writes_on_host: bool = False
) -> str:
    """The profile as JSON for ``seccomp=`` of Docker's ``SecurityOpt``; deterministic.

    :param has_file_locks: whether files can be locked by ``fcntl``.
    :param writes_on_host: whether the sandbox may write into directories of the host.
    """
    families = (AF_UNIX, *(NETWORK_FAMILIES if has_network else ()))
    requests = (*IOCTLS, *(NETWORK_IOCTLS if has_network else ()))
    commands = (*FCNTLS, *(LOCK_FCNTLS if has_file_locks else ()))
    levels = NETWORK_LEVELS if has_network else ()
    rules = [
        _rule(sorted(allowed()), ALLOW),
        # The kernel reads only the lower half of the register of each of these arguments.
        _when(["clone"], {0: 0}, NAMESPACE_FLAGS | CLONE_PARENT),
        *(_when(["socket", "socketpair"], {0: family}) for family in families),
        *(_when(["ioctl"], {1: request}) for request in requests),
        *(_when(["fcntl"], {1: command}) for command in commands),
        *(_when(["setsockopt"], {1: SOL_SOCKET, 2: option}) for option in SOCKET_OPTIONS),
        *(_when(["setsockopt"], {1: level}) for level in levels),
        *_flushes(has_effect=writes_on_host),
        *(_when(["personality"], {0: value}) for value in PERSONALITIES),
        *(_when(names.split(), dict.fromkeys(indexes, 0)) for indexes, names in OWN_ONLY.items()),
        *(_when(names.split(), {index: 0}, MSG_OOB) for index, names in MESSAGES.items()),
        *(
            _rule(sorted(names.split()), REFUSE) | {"errnoRet": code}
            for code, names in UNSUPPORTED.items()
        ),
    ]
    document = {
        "defaultAction": REFUSE,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in _ARCHITECTURES],
        "syscalls": rules,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _rule(names: Iterable[str], action: str) -> dict[str, Any]:
    return {"names": list(names), "action": action, "args": []}


def _flushes(*, has_effect: bool) -> Iterator[dict[str, Any]]:
    if has_effect:
        yield _rule([*FLUSHES.split(), "msync"], ALLOW)
        return
    success = {"action": REFUSE, "errnoRet": 0}
    yield _rule(FLUSHES.split(), REFUSE) | success
    yield _when(["msync"], {2: MS_SYNC}, MS_SYNC) | success
    yield _when(["msync"], {2: 0}, MS_SYNC)


def _when(names: Iterable[str], arguments: Mapping[int, int], mask: int = _WORD) -> dict[str, Any]:
    """Allowed where each of ``arguments``, by number, has its value in the bits of ``mask``."""
    match = [
        {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
        for index, value in arguments.items()
    ]
    return {**_rule(names, ALLOW), "args": match}
