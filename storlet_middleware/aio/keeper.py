"""What systemd does in production: restart sandboxd, and the Docker engine when it is ours, when they die; bound the logs.

Swift's own servers are left as they are: tests kill them to see what happens.  When somebody deletes the home of a running
cluster, the keeper takes the cluster down, since nobody else could any more.
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

from . import cache, cluster, engine, processes, programs
from .home import Home, is_still
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
class Charge:
    """One supervised process: ``alive`` looks, ``revive`` starts it and returns the new pid."""

    name: str
    alive: Callable[[], bool]
    revive: Callable[[], int | None]
    failures: int = 0
    started: float = 0.0

    def look(self, now: float) -> int | None:
        """Start the process again when it is down and its turn has come; the pid if so."""
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
class EngineHealth:
    """Whether our engine serves.  One that lives and does not answer for long (its containerd has gone) is ended."""

    pid: int | None = None
    looked: float = 0.0
    answered: float = 0.0

    def look(self) -> bool:
        """False when there is no engine, or none any more."""
        pid, now = engine.our_pid(), time.monotonic()
        if pid is None:
            return False
        if pid != self.pid:
            self.pid, self.answered = pid, now
        if now - self.looked > ENGINE_LOOK_SECONDS:
            self.looked = now
            if engine.find():
                self.answered = now
        if now - self.answered < ENGINE_SILENT_SECONDS:
            return True
        _note(
            f"the Docker engine {pid} has not answered for {ENGINE_SILENT_SECONDS:g} s: ending it"
        )
        engine.halt()
        return False


def keep(home: Home) -> None:
    """Supervise until killed, or until the home is gone."""
    charges = _charges(home)
    housework = 0.0
    with engine.in_use(), programs.keeping(home):
        while is_still(home):
            now = time.monotonic()
            for charge in charges:
                with _whatever_the_disk_does():
                    _tend(home, charge, now)
            if now >= housework:
                housework = now + HOUSEWORK_SECONDS
                for work in (_bound_logs, _note_engine, _touch_cache):
                    with _whatever_the_disk_does():
                        work(home)
            processes.reap()
            time.sleep(LOOK_SECONDS)
    _note(f"{home.real} has been deleted: taking its cluster down")
    _clean_up(home)


@contextmanager
def _whatever_the_disk_does() -> Iterator[None]:
    """A full disk, or a home that is deleted at this moment, must not end the keeper: nobody looks after that."""
    try:
        yield
    except OSError as error:
        _note(str(error))


def _note(text: str) -> None:
    """Into the keeper's log, as far as the disk lets it."""
    with suppress(OSError):
        complain(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}")


def _clean_up(home: Home) -> None:
    """Nobody else can do it: what hinders it once (an engine in the middle of a restart) is tried again."""
    for seconds in CLEAN_UP_AGAIN_SECONDS:
        try:
            cluster.clean_up(home)
        except (AioError, OSError) as error:
            _note(f"{error}\ntrying again in {seconds:g} s")
            time.sleep(seconds)
        else:
            return
    cluster.clean_up(home)


def bound_log(path: Path, limit: int = LOG_BYTES) -> None:
    """Copy and truncate: the writers have it open for appending and go on."""
    try:
        if path.stat().st_size > limit:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            os.truncate(path, 0)
    except OSError as error:
        _note(f"cannot bound {path}: {error}")


def _charges(home: Home) -> list[Charge]:
    charges = [
        _charge_of(home, entry) for entry in programs.load(home) if entry.name == programs.SANDBOXD
    ]
    if any(
        process["name"] == programs.DOCKERD
        for process in programs.load_cluster(home).get("processes", [])
    ):
        charges.append(Charge(programs.DOCKERD, alive=EngineHealth().look, revive=engine.revive))
    return charges


def _charge_of(home: Home, entry: programs.Entry) -> Charge:
    program = entry.program()
    return Charge(
        entry.name,
        alive=lambda: processes.leader(home.node_id, entry.name) is not None,
        revive=lambda: processes.start(home.node_id, program),
    )


def _tend(home: Home, charge: Charge, now: float) -> None:
    if programs.stopped_by_hand(home, charge.name).exists():
        return
    try:
        pid = charge.look(now)
    except AioError as error:
        _note(f"{charge.name}: {error}")
        return
    if pid:
        _note(f"{charge.name} had ended; started again, pid {pid}")
        programs.set_pid(home, charge.name, pid)


def _note_engine(home: Home) -> None:
    """Another cluster's keeper may have started the engine that both use."""
    pid = engine.our_pid()
    known = [
        process["pid"]
        for process in programs.load_cluster(home).get("processes", [])
        if process["name"] == programs.DOCKERD
    ]
    if pid is not None and known and pid not in known:
        programs.set_pid(home, programs.DOCKERD, pid)


def _bound_logs(home: Home) -> None:
    for path in [*home.logs.glob("*.log"), engine.LOG]:
        if path.exists():
            bound_log(path)


def _touch_cache(home: Home) -> None:
    """The cache forgets what nobody has asked for in a while; a running cluster needs its environment."""
    venv = programs.load_cluster(home).get("venv")
    if venv:
        cache.touch(Path(venv))
