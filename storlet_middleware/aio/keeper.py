"""The keeper of a running cluster does what systemd does in production.

It restarts sandboxd, and the Docker engine if the cluster started it, when they die, and bounds the
logs.  It does not restart Swift's servers: tests kill these and observe the result.  When the home
of a running cluster is deleted, the keeper takes the cluster down, because no other process can.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import cache, engine, processes, programs, teardown
from .home import Home, exists
from .progress import AioError, complain

LOOK_SECONDS: Final = 0.25
HOUSEWORK_SECONDS: Final = 10.0
LOG_BYTES: Final = 32 * 1024 * 1024
BACKOFF_SECONDS: Final = (0.0, 0.5, 1.0, 2.0)
STEADY_SECONDS: Final = 60.0
ENGINE_LOOK_SECONDS: Final = 5.0
ENGINE_SILENT_SECONDS: Final = 45.0
CLEAN_UP_AGAIN_SECONDS: Final = (1.0, 5.0, 30.0)


@dataclass
class Watched:
    """A process to restart: ``alive`` checks it, ``revive`` starts it and returns the new pid."""

    name: str
    alive: Callable[[], bool]
    revive: Callable[[], int | None]
    failures: int = 0
    started: float = 0.0

    def restart_if_down(self, now: float) -> int | None:
        """Start the process when it is down and its back-off is over; return its pid if started."""
        if self.alive():
            if now - self.started > STEADY_SECONDS:
                self.failures = 0
            return None
        if now - self.started < BACKOFF_SECONDS[min(self.failures, len(BACKOFF_SECONDS) - 1)]:
            return None
        self.failures += 1
        self.started = now
        return self.revive()


@dataclass
class Leader:
    """A named process of the cluster.

    Its pid is remembered: a look at all processes of the machine, four times a second, would take
    5% of a CPU.
    """

    owner: str
    name: str
    pid: int | None = None

    def is_alive(self) -> bool:
        self.pid = processes.leader(self.owner, self.name, self.pid)
        return self.pid is not None


@dataclass
class EngineHealth:
    """Whether our engine serves.  One that stops answering (its containerd died) is killed."""

    pid: int | None = None
    looked: float = 0.0
    answered: float = 0.0

    def is_healthy(self) -> bool:
        """False when there is no engine, or when it was just killed."""
        pid, now = engine.our_pid(self.pid), time.monotonic()
        if pid is None:
            return False
        if pid != self.pid:
            self.pid, self.answered = pid, now
        if now - self.looked > ENGINE_LOOK_SECONDS:
            self.looked = now
            if engine.find(pid):
                self.answered = now
        if now - self.answered < ENGINE_SILENT_SECONDS:
            return True
        _note(
            f"the Docker engine {pid} has not answered for {ENGINE_SILENT_SECONDS:g} s: stopping it"
        )
        engine.halt()
        return False


def keep(home: Home) -> None:
    """Monitor until killed, or until the home is deleted."""
    watched = _watched(home)
    housework = 0.0
    with engine.in_use(), programs.watching(home):
        while exists(home):
            now = time.monotonic()
            for process in watched:
                with _disk_faults_logged():
                    _tend(home, process, now)
            if now >= housework:
                housework = now + HOUSEWORK_SECONDS
                for work in (_bound_logs, _note_engine, _touch_cache):
                    with _disk_faults_logged():
                        work(home)
            processes.reap()
            time.sleep(LOOK_SECONDS)
    _note(f"{home.real} has been deleted: taking its cluster down")
    _clean_up(home)
    teardown.release_uids(home)


@contextmanager
def _disk_faults_logged() -> Iterator[None]:
    """Log disk errors (full, home deleted) instead of ending the keeper: nothing restarts it."""
    try:
        yield
    except OSError as error:
        _note(str(error))


def _note(text: str) -> None:
    """Write to the keeper's log, unless the disk is full."""
    with suppress(OSError):
        complain(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}")


def _clean_up(home: Home) -> None:
    """Take the cluster down; retry with back-off, because the engine may be restarting."""
    for seconds in CLEAN_UP_AGAIN_SECONDS:
        try:
            teardown.clean_up(home)
        except (AioError, OSError) as error:
            _note(f"{error}\nretrying in {seconds:g} s")
            time.sleep(seconds)
        else:
            return
    teardown.clean_up(home)


def bound_log(path: Path, limit: int = LOG_BYTES) -> None:
    """Copy and truncate a large log: its writers have it open for appending."""
    try:
        if path.stat().st_size > limit:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            os.truncate(path, 0)
    except OSError as error:
        _note(f"cannot bound {path}: {error}")


def _watched(home: Home) -> list[Watched]:
    watched = [
        _watched_entry(home, entry)
        for entry in programs.load(home)
        if entry.name == programs.SANDBOXD
    ]
    if any(
        process["name"] == programs.DOCKERD
        for process in programs.load_cluster(home).get("processes", [])
    ):
        watched.append(
            Watched(programs.DOCKERD, alive=EngineHealth().is_healthy, revive=engine.revive)
        )
    return watched


def _watched_entry(home: Home, entry: programs.Entry) -> Watched:
    program = entry.program()
    return Watched(
        entry.name,
        alive=Leader(home.node_id, entry.name).is_alive,
        revive=lambda: processes.start(home.node_id, program),
    )


def _tend(home: Home, process: Watched, now: float) -> None:
    if programs.stopped_by_hand(home, process.name).exists():
        return
    try:
        pid = process.restart_if_down(now)
    except AioError as error:
        _note(f"{process.name}: {error}")
        return
    if pid:
        _note(f"{process.name} had ended; restarted, pid {pid}")
        programs.set_pid(home, process.name, pid)


def _note_engine(home: Home) -> None:
    """Update the engine's pid: another cluster's keeper may have restarted the shared engine."""
    known = [
        process["pid"]
        for process in programs.load_cluster(home).get("processes", [])
        if process["name"] == programs.DOCKERD
    ]
    # A look at all processes of the machine, which the known pid saves, takes 10 ms.
    pid = engine.our_pid(known[0]) if known else None
    if pid is not None and pid not in known:
        programs.set_pid(home, programs.DOCKERD, pid)


def _bound_logs(home: Home) -> None:
    for path in [*home.logs.glob("*.log"), engine.LOG]:
        if path.exists():
            bound_log(path)


def _touch_cache(home: Home) -> None:
    """Mark the Python environment as used, so that the cache does not evict it."""
    venv = programs.load_cluster(home).get("venv")
    if venv:
        cache.touch(Path(venv))
