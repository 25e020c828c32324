"""Signals as a descriptor, limits, process trees."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_daemon import kernel


def in_child(function: Callable[[], bool]) -> bool:
    """Run ``function`` in a child, because it changes the process; return its result."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


def test_freed_buffers_are_reused_by_the_next_run() -> None:
    def faults_of_runs() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(100):
            first, second = bytearray(256 << 10), bytearray(256 << 10)
            del first, second
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    def check() -> bool:
        kernel.keep_freed_memory()
        faults_of_runs()
        # Allocated again for each run they would be 12,800.
        return faults_of_runs() < 1000

    assert in_child(check)


def test_signals_come_with_their_senders() -> None:
    def check() -> bool:
        queue = kernel.SignalQueue((signal.SIGTERM, signal.SIGCHLD))
        child = os.fork()
        if child == 0:
            os.kill(os.getppid(), signal.SIGTERM)
            os._exit(0)
        os.waitpid(child, 0)
        arrived = {one.number: one.sender for one in queue.read()}
        return arrived == {signal.SIGTERM: child, signal.SIGCHLD: child} and not list(queue.read())

    assert in_child(check)


def test_a_forged_sender_is_not_from_outside() -> None:
    """A storlet may forge pid 0 by a queued signal, or by a socket that signals its owner."""

    def queued(libc: ctypes.CDLL, target: int) -> None:
        info = struct.pack("iii116x", signal.SIGTERM, 0, -1)
        number = {"x86_64": 129, "aarch64": 138}[os.uname().machine]
        libc.syscall(number, target, signal.SIGTERM, info)  # rt_sigqueueinfo

    def owned(_libc: ctypes.CDLL, target: int) -> None:
        one, other = socket.socketpair()
        fcntl.fcntl(one, 10, signal.SIGINT)  # F_SETSIG
        fcntl.fcntl(one, fcntl.F_SETOWN, target)
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        other.send(b"x")

    def check() -> bool:
        queue = kernel.SignalQueue((signal.SIGTERM, signal.SIGINT))
        target = os.getpid()
        child = os.fork()
        if child == 0:
            libc = ctypes.CDLL(None)
            queued(libc, target)
            owned(libc, target)
            os._exit(0)
        os.waitpid(child, 0)
        arrived = list(queue.read())
        return [(one.number, one.sender) for one in arrived] == [
            (signal.SIGINT, 0),
            (signal.SIGTERM, 0),
        ] and not any(one.is_from_outside for one in arrived)

    assert in_child(check)


def test_kill_from_another_pid_namespace_is_from_outside() -> None:
    assert kernel.Signal(signal.SIGTERM, sender=0, code=0).is_from_outside
    assert not kernel.Signal(signal.SIGTERM, sender=7, code=0).is_from_outside


def test_a_worker_cannot_use_up_the_pending_signals() -> None:
    """Else the kernel would deliver a signal to process 1 without its sender."""

    def check() -> bool:
        before, _ = resource.getrlimit(resource.RLIMIT_SIGPENDING)
        kernel.limit_process(open_files=0, file_bytes=0)
        after = resource.getrlimit(resource.RLIMIT_SIGPENDING)
        return after[0] == after[1] <= kernel.SIGNALS_MAX and (before < 0 or after[0] < before)

    assert in_child(check)


def test_a_signal_makes_the_queue_readable() -> None:
    def check() -> bool:
        queue = kernel.SignalQueue((signal.SIGUSR1,))
        before = select.select([queue.fileno()], [], [], 0)[0]
        os.kill(os.getpid(), signal.SIGUSR1)
        return not before and bool(select.select([queue.fileno()], [], [], 1)[0])

    assert in_child(check)


def test_hidden_memory_can_be_shown_again() -> None:
    def check() -> bool:
        get_dumpable = ctypes.CDLL(None).prctl
        kernel.hide_memory()
        hidden = get_dumpable(3, 0, 0, 0, 0)
        kernel.show_memory()
        return bool(hidden == 0 and get_dumpable(3, 0, 0, 0, 0) == 1)

    assert in_child(check)


def test_strays_are_descendants_but_not_of_those_to_keep() -> None:
    def check() -> bool:
        kernel.adopt_orphans()
        kept = subprocess.Popen(["sh", "-c", "sleep 60 & wait"])
        subprocess.run(
            ["sh", "-c", "setsid sleep 60 & setsid sh -c 'sleep 60; true' &"], check=True
        )
        end = time.monotonic() + 5
        found, everything = [], []
        while (len(found), len(everything)) != (3, 5) and time.monotonic() < end:
            time.sleep(0.01)
            found = kernel.strays(os.getpid(), {kept.pid})
            everything = kernel.strays(os.getpid(), ())
        for pid in everything:
            kernel.kill(pid, signal.SIGKILL)
        return len(found) == 3 and len(everything) == 5 and kept.pid in everything

    assert in_child(check)


def test_signals_to_processes_that_have_ended_or_are_groups_do_nothing() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    kernel.kill(child, signal.SIGKILL)
    kernel.kill_group(child)
    for number in (1, 0, -1):
        kernel.kill(number, signal.SIGKILL)
        kernel.kill_group(number)


@pytest.mark.parametrize("name", ["x", "ü" * 30])
def test_a_name_may_be_anything(name: str) -> None:
    def check() -> bool:
        kernel.set_name(name)
        return Path("/proc/self/comm").read_bytes().strip() == name.encode()[:15]

    assert in_child(check)


def test_a_process_is_reported_with_its_cpu_time() -> None:
    one = kernel.process(os.getpid())
    assert one is not None
    assert (one.pid, one.parent, one.is_zombie) == (os.getpid(), os.getppid(), False)
    assert 0 < one.cpu_seconds <= sum(os.times()[:4]) + 1
    assert kernel.process(2**22 + 1) is None


def test_limits_of_a_process_are_enforced(tmp_path: Path) -> None:
    def check() -> bool:
        kernel.limit_process(open_files=0, file_bytes=1)
        with (tmp_path / "large").open("wb", buffering=0) as file:
            written = file.write(bytes(kernel.FILE_BYTES_MIN + 1))
            try:
                file.write(b"more")
            except OSError as error:
                is_refused = error.errno == errno.EFBIG
        kernel.limit_process(open_files=1, file_bytes=0)
        return (
            written == kernel.FILE_BYTES_MIN
            and is_refused
            and resource.getrlimit(resource.RLIMIT_NOFILE) == (kernel.OPEN_FILES_MIN,) * 2
            and resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
        )

    assert in_child(check)


def test_limits_of_a_process_are_never_raised() -> None:
    def check() -> bool:
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
        kernel.limit_process(open_files=1000, file_bytes=0)
        return resource.getrlimit(resource.RLIMIT_NOFILE) == (80, 80)

    assert in_child(check)


def test_the_kernel_prefers_to_kill_children_when_memory_runs_out() -> None:
    def check() -> bool:
        own = Path("/proc/self/oom_score_adj")
        before = int(own.read_text())
        expendable = kernel.Expendable()
        kernel.hide_memory()
        with expendable:
            child = os.fork()
            if child == 0:
                os._exit(0 if int(own.read_text()) == min(before + 300, 1000) else 1)
        return os.waitpid(child, 0)[1] == 0 and int(own.read_text()) == before

    assert in_child(check)


def test_a_missing_score_file_is_ignored(tmp_path: Path) -> None:
    with kernel.Expendable(str(tmp_path / "absent")):
        pass
