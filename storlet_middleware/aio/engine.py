"""The Docker engine: the running one, else one that we start and later stop.

Our engine listens at the default path (``/var/run/docker.sock``) and keeps its images where
Debian's package does.  It does not change the host's network (no bridge, no iptables: sandboxes
have no network) and runs with ``--live-restore``, so that sandboxes survive its restart.  All
clusters of a machine share it; the last ``down`` stops it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import processes
from .docker_api import DEFAULT_HOST, DockerApi
from .mounts import mounted_below, self_mounts, unmount
from .processes import Program
from .progress import AioError, run, say

OWNER: Final = "machine"
NAME: Final = "dockerd"
LOG: Final = Path("/var/log/storlets-aio/dockerd.log")
PID_FILE: Final = Path("/run/storlets-aio-dockerd.pid")
USERS: Final = Path("/run/storlets-aio-dockerd.users")
LOCK: Final = Path("/run/storlets-aio-dockerd.lock")
EXEC_ROOT: Final = Path("/run/docker")
DATA_ROOT: Final = Path("/var/lib/docker")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Engine:
    """The engine in use; ``pid`` is ``None`` when we did not start it."""

    api: DockerApi
    pid: int | None


def find(known: int | None = None) -> Engine | None:
    """The engine that answers, or ``None``; ``known`` is that of :func:`our_pid`."""
    for host in dict.fromkeys([os.environ.get("DOCKER_HOST") or DEFAULT_HOST, DEFAULT_HOST]):
        api = DockerApi(host)
        if api.answers():
            return Engine(api, our_pid(known))
    return None


def our_pid(known: int | None = None) -> int | None:
    """The pid of our dockerd; its containerd has the same mark, and may outlive it.

    :param known: the pid of the last time: if it is still right, no other process is looked at.
    """
    if known is not None and processes.is_leader(OWNER, NAME, known) and _is_dockerd(known):
        return known
    found = (process.pid for process in processes.running(OWNER, NAME))
    return next(filter(_is_dockerd, found), None)


def ensure(log: Path) -> Engine:
    """The engine that answers; one is started when none does."""
    with _lock():
        engine = find()
        if engine:
            return engine
        if Path("/run/systemd/system").is_dir() and shutil.which("systemctl"):
            run(["systemctl", "start", "docker"], log)
        else:
            _start()
        return _wait()


def need_hosts() -> None:
    """Raise an error without the host's engine: the one-box container cannot start its own."""
    if not find():
        raise AioError(
            "no Docker engine answers at /var/run/docker.sock: run this container with "
            "-v /var/run/docker.sock:/var/run/docker.sock -v /srv/storlets:/srv/storlets "
            "-v /run/storlets-aio:/run/storlets-aio --network host --cap-add SYS_PTRACE"
        )


def revive() -> int | None:
    """Restart our engine when it has died; return its pid if started now.  For the keeper."""
    with _lock():
        if our_pid() or DockerApi(DEFAULT_HOST).answers():
            return None
        return _start()


@contextmanager
def in_use() -> Iterator[None]:
    """Shared lock of every ``up`` and keeper: another cluster's ``down`` then keeps the engine."""
    with USERS.open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield


def stop_unused() -> None:
    """Stop our engine when no cluster uses it and no container runs in it."""
    with USERS.open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not processes.running(OWNER, NAME):
            return
        docker = find()
        if docker and docker.api.running_containers():
            say("our Docker engine stays up: other containers run in it")
            return
        halt()
        processes.stop(OWNER, NAME)
        # dockerd leaves its data directory mounted on itself.  Other file systems mounted there
        # belong to the operator.
        for point in sorted([*mounted_below(EXEC_ROOT), *self_mounts(DATA_ROOT)], reverse=True):
            unmount(point)
        shutil.rmtree(EXEC_ROOT, ignore_errors=True)


def halt() -> None:
    """Stop our engine; its containers keep running until it is back (``--live-restore``)."""
    with _lock():
        deadline = time.monotonic() + STOP_SECONDS
        for signum in (signal.SIGTERM, signal.SIGKILL):
            for process in _daemons():
                processes.kill(process, signum)
            while _daemons() and time.monotonic() < deadline:
                processes.reap()
                time.sleep(0.05)
        PID_FILE.unlink(missing_ok=True)
        Path(DEFAULT_HOST.removeprefix("unix://")).unlink(missing_ok=True)


def _daemons() -> list[processes.Process]:
    """dockerd, which stops its containerd itself; after a crash of dockerd, its containerd."""
    found = [(process, _command(process.pid)) for process in processes.running(OWNER, NAME)]
    dockerd = [process for process, command in found if command == "dockerd"]
    return dockerd or [process for process, command in found if command == "containerd"]


def _is_dockerd(pid: int) -> bool:
    return _command(pid) == "dockerd"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _start() -> int:
    binary = shutil.which("dockerd", path=processes.PATH)
    if not binary:
        raise AioError("no Docker engine answers, and dockerd is not installed: install docker.io")
    PID_FILE.unlink(missing_ok=True)
    _remove_stale_pid_file()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    command = [
        binary,
        "--host",
        DEFAULT_HOST,
        "--pidfile",
        str(PID_FILE),
        "--exec-root",
        str(EXEC_ROOT),
        "--live-restore",
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
    ]
    proxies = {
        key: value
        for key, value in os.environ.items()
        if key.lower() in {"http_proxy", "https_proxy", "no_proxy"}
    }
    return processes.start(OWNER, Program(NAME, command, LOG, env=proxies))


def _wait() -> Engine:
    deadline = time.monotonic() + START_SECONDS
    program = Program(NAME, ["dockerd"], LOG)
    if our_pid():
        processes.wait_until(lambda: find() is not None, OWNER, program, START_SECONDS)
    while time.monotonic() < deadline:
        engine = find()
        if engine:
            return engine
        time.sleep(0.2)
    raise AioError(f"the Docker engine was started, but does not answer; see {LOG}")


def _remove_stale_pid_file() -> None:
    """Remove containerd's pid file when it names another program or a zombie.

    That happens after a reboot, or when dockerd was killed.  dockerd would wait 15 seconds for
    that process, and fail.
    """
    file = EXEC_ROOT / "containerd/containerd.pid"
    try:
        pid = int(file.read_text(encoding="ascii"))
        name, _, rest = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
        )
        if "containerd" not in name or rest.split()[0] in "ZX":
            file.unlink()
    except FileNotFoundError:
        file.unlink(missing_ok=True)
    except (OSError, ValueError):
        pass


@contextmanager
def _lock() -> Iterator[None]:
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def describe() -> str:
    """One line of text, such as ``20.10.24, overlay2, cgroup v1``."""
    engine = find()
    if not engine:
        return "none"
    facts = engine.api.info()
    groups = facts.get("CgroupVersion", "1")
    return f"{facts.get('ServerVersion')}, {facts.get('Driver')}, cgroup v{groups}"
