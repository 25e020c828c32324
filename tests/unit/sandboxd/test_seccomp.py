"""The list of system calls: wide enough for what was seen, narrow enough to be worth having."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from typing import Any

import pytest

from storlet_middleware.sandboxd import seccomp

#: System calls of supervisor, workers and honest programs under a trace; the module describes the
#: method.
SEEN = """
    accept accept4 access alarm arch_prctl bind brk chdir chmod chown clock_getres clock_nanosleep clone clone3
    close close_range connect copy_file_range dup dup2 dup3 epoll_create1 epoll_ctl epoll_wait eventfd2 execve exit
    exit_group fadvise64 fallocate fchmod fchown fcntl fdatasync flistxattr flock fstat fsync ftruncate futex getcwd
    getdents64 getegid geteuid getgid getgroups getpeername getpid getppid getpriority getrandom getresuid getrusage
    getsockname getsockopt gettid getuid getxattr inotify_add_watch inotify_init inotify_rm_watch ioctl kill
    lgetxattr link listen listxattr lseek madvise mbind memfd_create mkdir mknodat mmap mprotect mremap msync munmap
    newfstatat openat pidfd_open pipe2 poll prctl pread64 preadv2 prlimit64 pwrite64 read readlink recvfrom recvmsg
    rename restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigtimedwait
    sched_getaffinity sched_getscheduler sched_rr_get_interval sched_setaffinity sched_yield sendfile sendmsg sendto
    set_robust_list set_tid_address setitimer setpriority setsid setsockopt setxattr shutdown signalfd4 socket
    socketpair statfs statx symlink sysinfo times truncate umask uname unlink unlinkat utimensat vfork wait4 waitid
    write
"""
#: Honest programs try these calls, and work without them.
REFUSED_YET_FINE = {
    "clone3",
    "flistxattr",
    "getxattr",
    "lgetxattr",
    "listxattr",
    "setxattr",
    "mbind",
}
#: Groups that Docker's profile allows to all containers, but which sandboxes must not use.
ALLOWED_BY_DOCKER = """
    io_cancel io_destroy io_getevents io_setup io_submit memfd_secret mq_open msgget msgsnd msgrcv name_to_handle_at
    process_mrelease semget shmat shmget sync syncfs vmsplice modify_ldt getxattr setxattr io_pgetevents semop shmctl
"""


def rules(*, has_network: bool = False) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(seccomp.profile(has_network=has_network))["syscalls"]
    return found


def of(name: str, *, has_network: bool = False) -> list[dict[str, Any]]:
    return [rule for rule in rules(has_network=has_network) if name in rule["names"]]


def families(*, has_network: bool) -> set[int]:
    return {rule["args"][0]["valueTwo"] for rule in of("socket", has_network=has_network)}


def test_unnamed_calls_are_refused() -> None:
    profile = json.loads(seccomp.profile(has_network=False))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {rule["action"] for rule in profile["syscalls"]} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}


def test_each_call_that_was_seen_is_in_the_profile() -> None:
    refused = {
        name
        for name in SEEN.split()
        if not any(rule["action"] == seccomp.ALLOW or not rule["errnoRet"] for rule in of(name))
    }
    assert refused <= REFUSED_YET_FINE


def test_locks_are_refused_except_those_of_a_process_in_a_class_that_has_them() -> None:
    for has_file_locks in (False, True):
        rules = json.loads(seccomp.profile(has_network=False, has_file_locks=has_file_locks))
        commands = {
            rule["args"][0]["valueTwo"] for rule in rules["syscalls"] if rule["names"] == ["fcntl"]
        }
        assert commands >= {fcntl.F_DUPFD_CLOEXEC, fcntl.F_SETFL, fcntl.F_GETLK, fcntl.F_SETOWN}
        of_process = {fcntl.F_SETLK, fcntl.F_SETLKW}
        assert commands & of_process == (of_process if has_file_locks else set())
        assert not commands & {
            fcntl.F_OFD_GETLK, fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW, fcntl.F_SETLEASE,
            fcntl.F_NOTIFY, fcntl.F_SETSIG,
        }  # fmt: skip


def test_a_flush_succeeds_without_effect_where_all_files_are_in_memory() -> None:
    for name in ("fsync", "fdatasync", "sync_file_range"):
        (rule,) = of(name)
        assert (rule["action"], rule["errnoRet"], rule["args"]) == (seccomp.REFUSE, 0, [])
    without, with_effect = of("msync")
    (match,) = without["args"]
    assert (match["index"], match["value"], match["valueTwo"]) == (2, 4, 4)
    assert without["errnoRet"] == 0
    (match,) = with_effect["args"]
    assert (match["index"], match["value"], match["valueTwo"]) == (2, 4, 0)
    on_host = json.loads(seccomp.profile(has_network=False, writes_on_host=True))["syscalls"]
    for name in ("fsync", "fdatasync", "sync_file_range", "msync"):
        assert [rule["action"] for rule in on_host if name in rule["names"]] == [seccomp.ALLOW]


def test_no_option_of_a_socket_attaches_a_packet_filter() -> None:
    attaching = {26, 50, 51, 52}
    for has_network in (False, True):
        options = [rule["args"] for rule in of("setsockopt", has_network=has_network)]
        of_sockets = [match for match in options if match[0]["valueTwo"] == socket.SOL_SOCKET]
        assert {match["valueTwo"] for _, match in of_sockets} >= {
            socket.SO_SNDBUF, socket.SO_RCVBUF, socket.SO_RCVTIMEO, socket.SO_REUSEADDR,
        }  # fmt: skip
        assert not {match["valueTwo"] for _, match in of_sockets} & attaching
        levels = {match[0]["valueTwo"] for match in options if len(match) == 1}
        assert levels == ({0, 6, 17, 41, 270} if has_network else set())


@pytest.mark.parametrize("has_network", [False, True])
def test_a_dangerous_call_is_in_no_rule(*, has_network: bool) -> None:
    found = {name: of(name, has_network=has_network) for name in seccomp.DENIED.split()}
    assert found
    assert {name: rules for name, rules in found.items() if rules} == {}


def test_it_is_narrower_than_dockers_own() -> None:
    wanted = set(ALLOWED_BY_DOCKER.split())
    assert not wanted & seccomp.allowed()
    assert len(seccomp.allowed()) < 240  # Docker's has 350 and more


def test_no_call_is_named_twice() -> None:
    names = " ".join(seccomp.ALLOWED.values()).split()
    assert len(names) == len(set(names))


def test_clone_makes_no_namespaces_and_clone3_is_not_there() -> None:
    (clone,) = of("clone")
    (match,) = clone["args"]
    assert (match["index"], match["valueTwo"], match["op"]) == (0, 0, "SCMP_CMP_MASKED_EQ")
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert match["value"] & flag
    assert (
        match["value"] & 0x8000
    )  # CLONE_PARENT: a sibling process, which could not be attributed to its creator
    threads, fork = 0x3D0F00, 0x1200011
    assert not match["value"] & (threads | fork)
    assert [(rule["action"], rule["errnoRet"]) for rule in of("clone3")] == [
        ("SCMP_ACT_ERRNO", errno.ENOSYS)
    ]


def test_sockets_are_local_unless_there_is_a_network() -> None:
    assert families(has_network=False) == {1}
    assert families(has_network=True) == {1, 2, 10, 16}


def test_arguments_are_compared_as_the_kernel_reads_them() -> None:
    """The kernel reads 32 bits of these; a higher bit must neither bypass a rule nor cause a
    refusal."""
    for name in (
        "socket",
        "socketpair",
        "fcntl",
        "ioctl",
        "personality",
        "setsockopt",
        "prlimit64",
        "setpriority",
    ):
        for rule in of(name):
            assert {(match["op"], match["value"]) for match in rule["args"]} == {
                ("SCMP_CMP_MASKED_EQ", 0xFFFFFFFF)
            }


def test_urgent_data_is_refused_in_every_call_that_sends_or_receives() -> None:
    flags = {"sendto": 3, "recvfrom": 3, "sendmsg": 2, "recvmsg": 2, "sendmmsg": 3, "recvmmsg": 3}
    for name, index in flags.items():
        (rule,) = of(name)
        (match,) = rule["args"]
        assert (match["index"], match["op"]) == (index, "SCMP_CMP_MASKED_EQ")
        assert (match["value"], match["valueTwo"]) == (int(socket.MSG_OOB), 0)
        assert name not in seccomp.allowed()


def test_limits_and_priorities_are_set_of_the_caller_only() -> None:
    for indexes, names in seccomp.OWN_ONLY.items():
        for name in names.split():
            (rule,) = of(name)
            assert [(match["index"], match["valueTwo"]) for match in rule["args"]] == [
                (index, 0) for index in indexes
            ]


def test_a_priority_is_not_set_for_all_of_a_user() -> None:
    """``setpriority(PRIO_USER, 0, 19)`` names no process and reaches the supervisor."""
    (rule,) = of("setpriority")
    assert {match["index"]: match["valueTwo"] for match in rule["args"]} == {
        0: os.PRIO_PROCESS,
        1: 0,
    }


def test_attributes_of_files_are_as_on_a_file_system_without_them() -> None:
    for name in ("getxattr", "fgetxattr", "listxattr", "setxattr"):
        assert [(rule["action"], rule["errnoRet"]) for rule in of(name)] == [
            ("SCMP_ACT_ERRNO", errno.ENOTSUP)
        ]


def test_the_text_is_always_the_same() -> None:
    text = seccomp.profile(has_network=False)
    seccomp.profile.cache_clear()
    assert seccomp.profile(has_network=False) == text
