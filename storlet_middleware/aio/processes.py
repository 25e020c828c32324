"""Start, find and stop the processes of a cluster.

A process of a cluster has the mark ``STORLETS_AIO=<owner>/<name>`` in its environment, which its
children inherit.  There are no pid files, so none can be stale.  Signals go through a pidfd that is
opened *before* the mark is read again, so that a reused pid is never signalled.
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
#: Starts a process.  Tests replace it, to save the imports of servers.
popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
#: The environment of all processes, besides their path, their mark and their own variables.
ENVIRONMENT: Final = {
    "HOME": "/",
    "LANG": "C.UTF-8",
    "PYTHONWARNINGS": "ignore::DeprecationWarning",
}
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


def need_ptrace() -> None:
    """Raise an error without CAP_SYS_PTRACE, which is needed to read other users' marks.

    Root has it, except in a container.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = next(
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")
    )
    if not effective >> CAP_SYS_PTRACE & 1:
        raise AioError(
            "CAP_SYS_PTRACE is missing, which is needed to find the processes of the cluster: run "
            "the container with --cap-add SYS_PTRACE"
        )


def leader(owner: str, name: str, known: int | None = None) -> int | None:
    """The pid of a named process, or ``None`` when it does not run.

    :param known: the pid of the last time: if it is still right, no other process is looked at.
    """
    if known is not None and is_leader(owner, name, known):
        return known
    for process in running(owner, name):
        if process.leader:
            return process.pid
    return None


def is_leader(owner: str, name: str, pid: int) -> bool:
    """Whether ``pid`` is that process; a look at it alone."""
    return _read(pid) == Process(pid, owner, name, leader=True)


def leaders(owner: str) -> dict[str, int]:
    """The pids of all named processes that run, by name; one look at the machine's processes."""
    return {p.name: p.pid for p in reversed(running(owner)) if p.leader}


def start(owner: str, program: Program) -> int:
    """Start ``program`` in its own session, with its output appended to its log; return its pid.

    Does not make the log's directory: a home that is being deleted must not be recreated.
    """
    env = {
        "PATH": PATH,
        **ENVIRONMENT,
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
            child = popen(
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
    child.returncode = 0  # it outlives this command: no warning that it was not waited for
    return child.pid


def stop(owner: str, *names: str, patience_seconds: float = 10.0) -> list[int]:
    """Stop the processes of ``owner`` with one of ``names``, or all of them.

    SIGTERM to session leaders, then SIGKILL to all that are left.

    Returns the pids that were signalled.
    """
    seen: dict[int, Process] = {}
    _signal_all(_all_but_self(owner, names), signal.SIGTERM, seen, leaders_only=True)
    deadline = time.monotonic() + patience_seconds
    while (left := _all_but_self(owner, names)) and time.monotonic() < deadline:
        reap()
        if not any(process.leader for process in left):
            break
        time.sleep(0.05)
    for _ in range(200):
        left = _all_but_self(owner, names)
        if not left:
            return sorted(seen)
        _signal_all(left, signal.SIGKILL, seen, leaders_only=False)
        reap()
        time.sleep(0.05)
    raise AioError(
        f"these processes cannot be killed: {', '.join(f'{p.name} ({p.pid})' for p in left)}"
    )


def kill(process: Process, signum: signal.Signals) -> bool:
    """Signal exactly this process; return False when it has ended."""
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
    """Wait until a started program answers; the error shows the end of its log."""
    deadline, pid = time.monotonic() + seconds, None
    while not ready():
        # The pid of the last time: a look at all processes of the machine costs more than `ready`.
        pid = leader(owner, program.name, pid)
        if pid is None and not _is_there_later(owner, program.name):
            raise AioError(
                f"{program.name} ended while starting. The end of "
                f"{program.log}:\n{tail(program.log)}"
            )
        if time.monotonic() > deadline:
            raise AioError(
                f"{program.name} did not answer within {seconds:.0f} s. The end of "
                f"{program.log}:\n{tail(program.log)}"
            )
        time.sleep(0.05)


def _is_there_later(owner: str, name: str) -> bool:
    """Check again: right after its start a process briefly has no environment in /proc."""
    time.sleep(0.2)
    return leader(owner, name) is not None


def _all_but_self(owner: str, names: Sequence[str]) -> list[Process]:
    """All except this process: the keeper may take down its own cluster."""
    wanted = {name for name in names if name}
    return [
        process
        for process in running(owner)
        if process.pid != os.getpid() and (not wanted or process.name in wanted)
    ]


def _signal_all(
    found: list[Process], signum: signal.Signals, seen: dict[int, Process], *, leaders_only: bool
) -> None:
    for process in found:
        if (process.leader or not leaders_only) and kill(process, signum):
            seen[process.pid] = process


def _read(pid: int) -> Process | None:
    """A process with a mark; ``None``: without mark, ended, a zombie, or unreadable."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        _, needle, rest = (b"\0" + environ).partition(b"\0" + MARK.encode() + b"=")
        if not needle:
            return None
        mark = rest.partition(b"\0")[0]
        owner, _, name = mark.decode(errors="replace").partition("/")
        return Process(pid, owner, name, leader=os.getsid(pid) == pid)
    except OSError:
        return None


def reap() -> None:
    """Reap ended children of this process, so that it leaves no zombies."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
