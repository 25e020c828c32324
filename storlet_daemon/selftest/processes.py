"""Other processes: the supervisor, which is process 1, and the host's, which must be hidden."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import time

from storlet_daemon.selftest.calls import Call, call, refused
from storlet_daemon.selftest.model import Facts, SelfTest, listed, opens, read

#: Files of a process that reveal its memory, its descriptors or its view of the system.
_CLOSED = ("mem", "maps", "environ", "auxv", "io", "syscall", "stack", "pagemap", "personality")
_LINKS = ("root", "cwd", "exe", "ns/mnt")
_PTRACE = Call("ptrace", (101, 117), (), "")
_READ_MEMORY = Call("process_vm_readv", (310, 270), (), "")
_QUEUE = Call("rt_sigqueueinfo", (129, 138), (), "")
_SIGINFO = struct.Struct("iii116x")
_SI_QUEUE = -1
_F_SETSIG = 10
_SEIZE = 0x4206
_WRONG_STATES = ("T", "t", "Z", "X")


def _host(facts: Facts) -> str:
    if facts.supervisor != 1:
        return (
            f"the supervisor is process {facts.supervisor}, not 1: processes of others are in sight"
        )
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    strangers = [pid for pid in pids if pid != 1 and _uid(pid) not in (os.getuid(), None)]
    return f"processes of other users are in sight: {strangers[:5]}" if strangers else ""


def _uid(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _memory(facts: Facts) -> str:
    place = f"/proc/{facts.supervisor}"
    # Some can be opened by every user and are empty, so the test is whether they can be read.
    found = [name for name in _CLOSED if _reads(f"{place}/{name}")]
    for name in _LINKS:
        with contextlib.suppress(OSError):
            os.readlink(f"{place}/{name}")
            found.append(name)
    with contextlib.suppress(OSError):
        os.listdir(f"{place}/fd")
        found.append("fd")
    if opens(f"{place}/mem", os.O_RDWR):
        found.append("mem for writing")
    return f"of the supervisor can be read: {listed(found, 5)}" if found else ""


def _reads(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(os.read(descriptor, 1))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _trace(facts: Facts) -> str:
    pid = facts.supervisor
    attempts = (
        ("ptrace", refused(call(_PTRACE.number(), _SEIZE, pid, 0, 0)) if _PTRACE.number() else ""),
        (
            "process_vm_readv",
            refused(call(_READ_MEMORY.number(), pid, 0, 0, 0, 0, 0))
            if _READ_MEMORY.number()
            else "",
        ),
    )
    return listed([f"{name}: {fault}" for name, fault in attempts if fault])


def _signals(facts: Facts) -> str:
    if facts.supervisor != 1:
        return f"not tried: the supervisor is process {facts.supervisor}, not 1"
    # SIGCHLD is the one signal that it handles, and this process causes enough of those.
    for number in sorted(set(signal.valid_signals()) - {signal.SIGCHLD}):
        with contextlib.suppress(OSError):
            os.kill(1, number)
    for number in (signal.SIGTERM, signal.SIGINT):
        _send_forged(number)
    time.sleep(0.02)
    state = read("/proc/1/stat").rpartition(")")[2].split()[:1]
    return f"process 1 is in state {state}" if not state or state[0] in _WRONG_STATES else ""


def _send_forged(number: int) -> None:
    """Send a signal as if from outside: with a forged sender, and with none.

    A supervisor that trusts it exits.
    """
    call(_QUEUE.number(), 1, number, _SIGINFO.pack(number, 0, _SI_QUEUE))
    one, other = socket.socketpair()
    with one, other, contextlib.suppress(OSError):
        fcntl.fcntl(one, _F_SETSIG, number)
        fcntl.fcntl(one, fcntl.F_SETOWN, 1)
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        other.send(b"x")


TESTS = (
    SelfTest("processes-of-the-host", "seeing and signalling processes outside", _host),
    SelfTest("supervisor-memory", "the control connection, other storlets' descriptors", _memory),
    SelfTest("supervisor-trace", "taking the supervisor over", _trace),
    SelfTest("supervisor-signals", "ending or stopping the tenant's other storlets", _signals),
)
