"""The Docker engine: the one that answers, else one that we start and later stop.

An engine of ours listens where clients look (``/var/run/docker.sock``) and keeps its images where Debian's package does.
It leaves the host's network alone (no bridge, no iptables: sandboxes have no network) and runs with ``--live-restore``, so
that sandboxes go on when it is restarted.  All clusters of a machine share it; the last ``down`` stops it.
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
from .home import mounted_below, self_mounts, unmount
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
    """The engine in use; ``pid`` is that of our own dockerd, else ``None``."""

    api: DockerApi
    pid: int | None


def find() -> Engine | None:
    """The engine that answers, if one does."""
    for host in dict.fromkeys([os.environ.get("DOCKER_HOST") or DEFAULT_HOST, DEFAULT_HOST]):
        api = DockerApi(host)
        if api.answers():
            return Engine(api, our_pid())
    return None


def our_pid() -> int | None:
    """The pid of the dockerd that we started: its containerd inherits the mark, and may outlive it."""
    for process in processes.running(OWNER, NAME):
        if _command(process.pid) == "dockerd":
            return process.pid
    return None


def ensure(log: Path) -> Engine:
    """The engine that answers, started where none did."""
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
    """In the one-box container no engine can be started: it must be the host's."""
    if not find():
        raise AioError(
            "no Docker engine answers at /var/run/docker.sock: run this container with "
            "-v /var/run/docker.sock:/var/run/docker.sock -v /srv/storlets:/srv/storlets "
            "-v /run/storlets-aio:/run/storlets-aio --network host --cap-add SYS_PTRACE"
        )


def revive() -> int | None:
    """For the keeper: start our engine again when it has died.  Returns its pid when it was started now."""
    with _lock():
        if our_pid() or DockerApi(DEFAULT_HOST).answers():
            return None
        return _start()


@contextmanager
def in_use() -> Iterator[None]:
    """Held by every ``up`` and every keeper, so that another cluster's ``down`` leaves the engine running."""
    with USERS.open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield


def stop_unused() -> None:
    """Stop our engine when no cluster uses it and nobody's container runs in it."""
    with USERS.open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not processes.running(OWNER, NAME):
            return
        docker = find()
        if docker and docker.api.running_containers():
            say("the Docker engine that we started goes on: containers of somebody else run in it")
            return
        halt()
        processes.stop(OWNER, NAME)
        # dockerd mounts its data on itself and leaves it so; a file system of the operator's there is not ours to unmount.
        for point in sorted([*mounted_below(EXEC_ROOT), *self_mounts(DATA_ROOT)], reverse=True):
            unmount(point)
        shutil.rmtree(EXEC_ROOT, ignore_errors=True)


def halt() -> None:
    """End our engine; containers in it, and so their shims, go on until it is back (``--live-restore``)."""
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
    """dockerd first: it ends its containerd itself, unless it was killed before it could."""
    found = [(process, _command(process.pid)) for process in processes.running(OWNER, NAME)]
    dockerd = [process for process, command in found if command == "dockerd"]
    return dockerd or [process for process, command in found if command == "containerd"]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _start() -> int:
    binary = shutil.which("dockerd", path=processes.PATH)
    if not binary:
        raise AioError(
            "no Docker engine answers and there is no dockerd to start: install docker.io"
        )
    PID_FILE.unlink(missing_ok=True)
    _forget_stale_containerd()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    command = [
        binary, "--host", DEFAULT_HOST, "--pidfile", str(PID_FILE), "--exec-root", str(EXEC_ROOT), "--live-restore",
        "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
    ]  # fmt: skip
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
    raise AioError("the Docker engine was started and does not answer")


def _forget_stale_containerd() -> None:
    """Its pid file may name a process of somebody else's (after a reboot) or one that is dead and that nobody has reaped
    (it dies with a dockerd that is killed): dockerd would wait a quarter of a minute for that one, and give up."""
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
    """One line for people, such as ``20.10.24, overlay2, cgroup v1``."""
    engine = find()
    if not engine:
        return "none"
    facts = engine.api.info()
    return f"{facts.get('ServerVersion')}, {facts.get('Driver')}, cgroup v{facts.get('CgroupVersion', '1')}"
