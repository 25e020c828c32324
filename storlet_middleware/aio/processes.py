"""Start, find and stop the processes of a cluster.

A process of ours carries ``STORLETS_AIO=<owner>/<name>`` in its environment, which its children inherit and nobody else
has: no pid file, so none can be stale.  Signals go through a pidfd taken *before* the mark is read again, so that a number
which the kernel has given to somebody else meanwhile is never signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .progress import AioError, tail

MARK: Final = "STORLETS_AIO"
CAP_SYS_PTRACE: Final = 19
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Process:
    """One running process of ours, as ``/proc`` shows it."""

    pid: int
    owner: str
    name: str
    leader: bool


@dataclass(frozen=True)
class Program:
    """How to start a process: ``user`` is a name, or empty for the caller's own."""

    name: str
    command: Sequence[str]
    log: Path
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


def running(owner: str, name: str = "") -> list[Process]:
    """The processes of ``owner`` (a node id), of one ``name`` or of all; session leaders first."""
    found = [p for p in everything() if p.owner == owner and (not name or p.name == name)]
    return sorted(found, key=lambda process: (not process.leader, process.pid))


def everything() -> Iterator[Process]:
    """All processes of all clusters on this machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            process = _read(int(entry.name))
            if process:
                yield process


def need_sight() -> None:
    """The mark of another user's process can be read with this capability only; root has it, but not in a container."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = next(
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")
    )
    if not effective >> CAP_SYS_PTRACE & 1:
        raise AioError(
            "this needs the capability to see its processes: run the container with --cap-add SYS_PTRACE"
        )


def leader(owner: str, name: str) -> int | None:
    """The pid of a named process, or ``None`` where it does not run."""
    for process in running(owner, name):
        if process.leader:
            return process.pid
    return None


def start(owner: str, program: Program) -> int:
    """Start ``program`` detached: own session, no standard input, output appended to its log.  Returns its pid.

    The log's directory is not made here: a home that is being deleted must not come back.
    """
    env = {
        "PATH": PATH,
        "HOME": "/",
        "LANG": "C.UTF-8",
        "PYTHONWARNINGS": "ignore::DeprecationWarning",
        **program.env,
        MARK: f"{owner}/{program.name}",
    }
    try:
        log = program.log.open("ab")
    except OSError as error:
        raise AioError(
            f"cannot start {program.name}: its log {program.log}: {error.strerror}"
        ) from error
    with log:
        try:
            child = subprocess.Popen(
                list(program.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd="/",
                umask=0o022,
                start_new_session=True,
                user=program.user or None,
                group=program.user or None,
                extra_groups=[] if program.user else None,
            )
        except OSError as error:
            raise AioError(
                f"cannot start {program.name} ({program.command[0]}): {error.strerror}"
            ) from error
    child.returncode = (
        0  # nobody waits for it here: it outlives this command (and no warning about that)
    )
    return child.pid


def stop(owner: str, name: str = "", patience_seconds: float = 10.0) -> list[int]:
    """End the processes of ``owner``: SIGTERM to the leaders, SIGKILL to whatever is left.  Returns the pids seen."""
    seen: dict[int, Process] = {}
    _signal_all(_others(owner, name), signal.SIGTERM, seen, leaders_only=True)
    deadline = time.monotonic() + patience_seconds
    while (left := _others(owner, name)) and time.monotonic() < deadline:
        reap()
        if not any(process.leader for process in left):
            break
        time.sleep(0.05)
    for _ in range(200):
        left = _others(owner, name)
        if not left:
            return sorted(seen)
        _signal_all(left, signal.SIGKILL, seen, leaders_only=False)
        reap()
        time.sleep(0.05)
    raise AioError(f"these processes do not end: {', '.join(f'{p.name} ({p.pid})' for p in left)}")


def kill(process: Process, signum: signal.Signals) -> bool:
    """Signal exactly this process, or nothing when it has gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if _read(process.pid) != process:
            return False
        signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def wait_until(
    ready: Callable[[], bool], owner: str, program: Program, seconds: float = 30.0
) -> None:
    """Wait for a started program to answer; when it dies or stays silent, the error shows the end of its log."""
    deadline = time.monotonic() + seconds
    while not ready():
        if leader(owner, program.name) is None and not _appears(owner, program.name):
            raise AioError(
                f"{program.name} ended while starting. The end of {program.log}:\n{tail(program.log)}"
            )
        if time.monotonic() > deadline:
            raise AioError(
                f"{program.name} did not answer within {seconds:.0f} s. The end of {program.log}:\n{tail(program.log)}"
            )
        time.sleep(0.05)


def _appears(owner: str, name: str) -> bool:
    """A second look: right after the start there is a moment in which the kernel shows no environment yet."""
    time.sleep(0.2)
    return leader(owner, name) is not None


def _others(owner: str, name: str) -> list[Process]:
    """All but this process itself: the keeper, too, takes a cluster down."""
    return [process for process in running(owner, name) if process.pid != os.getpid()]


def _signal_all(
    found: list[Process], signum: signal.Signals, seen: dict[int, Process], *, leaders_only: bool
) -> None:
    for process in found:
        if (process.leader or not leaders_only) and kill(process, signum):
            seen[process.pid] = process


def _read(pid: int) -> Process | None:
    """The mark of a process, or ``None``: not ours, gone, a zombie (whose environment reads empty) or not readable."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        needle = MARK.encode() + b"="
        if needle not in environ:
            return None
        marks = [item[len(needle) :] for item in environ.split(b"\0") if item.startswith(needle)]
        if not marks:
            return None
        owner, _, name = marks[0].decode(errors="replace").partition("/")
        return Process(pid, owner, name, leader=os.getsid(pid) == pid)
    except OSError:
        return None


def reap() -> None:
    """Collect children of our own that have ended; zombies would else be left by whoever starts and stops processes."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
