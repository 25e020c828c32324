"""The processes of a cluster as a table: made by ``up``, saved in ``programs.json``.

``start`` and the keeper read it.  The list of processes in ``cluster.json``, which people and tests
read, is made from this table and the running processes.
"""

from __future__ import annotations

import fcntl
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from . import cache, processes
from .home import Home
from .packages import USER
from .processes import Program
from .settings import write_json

KEEPER: Final = "keeper"
SANDBOXD: Final = "sandboxd"
DOCKERD: Final = "dockerd"
KEY: Final = "STORLETS_AIO_KEY"
"""Environment variable with the hash of command, configuration and code; outdated: restart."""

#: All addresses of a cluster are numbers, and the import of a resolver takes a fifth of the start.
SWIFT_ENV: Final = {"EVENTLET_NO_GREENDNS": "yes"}


@dataclass(frozen=True)
class Entry:
    """One process: its command, where it listens and where it logs."""

    name: str
    command: list[str]
    log: str
    user: str = ""
    port: int | None = None
    socket: str | None = None
    config: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    def program(self) -> Program:
        return Program(self.name, self.command, Path(self.log), self.user, self.env)


def table(
    home: Home, venv: Path, *, with_sandboxd: bool, tested: Sequence[str] = ()
) -> list[Entry]:
    """All processes of a cluster, in the order in which they start.

    :param tested: the trust classes that sandboxd tests at its start; none: all.
    """
    python = str(venv / "bin/python3")
    entries = [_memcached(home)]
    for name, conf in (
        ("account-1", "account-server-1.conf"),
        ("container-1", "container-server-1.conf"),
        ("object-1", "object-server-1.conf"),
        ("object-2", "object-server-2.conf"),
        ("proxy", "proxy-server.conf"),
    ):
        server = f"swift-{name.partition('-')[0]}-server"
        config = home.conf / conf
        command = [
            python,
            "-m",
            "storlet_middleware.aio.serve",
            str(home.conf),
            server,
            str(config),
            "-v",
        ]
        entries.append(
            _keyed(
                home,
                Entry(
                    name,
                    command,
                    str(home.logs / f"{name}.log"),
                    USER,
                    port=home.ports[name],
                    config=str(config),
                    env=dict(SWIFT_ENV),
                ),
                "proxy-server.conf" if name == "proxy" else conf,
            )
        )
    if with_sandboxd:
        config = home.conf / "storlet.conf"
        command = [python, str(venv / "bin/storlet-sandboxd"), "--conf", str(config)]
        command += [word for name in tested for word in ("--test", name)]
        entries.insert(
            -1,
            _keyed(
                home,
                Entry(
                    SANDBOXD,
                    command,
                    str(home.logs / "sandboxd.log"),
                    socket=str(home.run / "sandboxd.sock"),
                    config=str(config),
                ),
                "storlet.conf",
            ),
        )
    keeper = [python, "-m", "storlet_middleware.aio", "keep"]
    directories = {
        "STORLETS_HOME": str(home.real),
        "STORLETS_CONF": str(home.real_conf),
        "STORLETS_CACHE": str(cache.cache_root()),
    }
    entries.append(
        _keyed(
            home,
            Entry(KEEPER, keeper, str(home.logs / "keeper.log"), env=directories),
            "storlet.conf",
        )
    )
    return entries


def save(home: Home, entries: list[Entry]) -> None:
    write_json(home.real / "programs.json", {"programs": [asdict(entry) for entry in entries]})


def load(home: Home) -> list[Entry]:
    try:
        value = json.loads((home.real / "programs.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [Entry(**item) for item in value["programs"]]


def answers(home: Home, entry: Entry) -> bool:
    """Whether the process answers requests (the keeper: whether it is monitoring)."""
    if entry.name == "memcached":
        return _connects(("127.0.0.1", entry.port or 0), socket.AF_INET, socket.SOCK_STREAM)
    if entry.port:
        return _is_healthy(entry.port)
    if entry.socket:
        return _connects(entry.socket, socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return _is_watched(home)


@contextmanager
def watching(home: Home) -> Iterator[None]:
    """Held by the keeper once it is monitoring: before that, it may not have read the home yet."""
    with (home.run / "keeper.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_watched(home: Home) -> bool:
    try:
        with (home.run / "keeper.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def is_current(pid: int, entry: Entry) -> bool:
    """Whether the running process was started from the same command, configuration and code."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{KEY}={entry.env[KEY]}".encode() in environ


def described(
    home: Home, entries: list[Entry], docker_pid: int | None, docker_log: Path, docker_host: str
) -> list[dict[str, Any]]:
    """The processes for ``cluster.json``: those of the table, and the engine if we started it."""
    pids = processes.leaders(home.node_id)
    shown = [
        {
            "name": entry.name,
            "pid": pids.get(entry.name),
            **({"port": entry.port} if entry.port else {}),
            **({"socket": entry.socket} if entry.socket else {}),
            "config": entry.config,
            "log": entry.log,
        }
        for entry in entries
    ]
    if docker_pid:
        shown.append(
            {
                "name": DOCKERD,
                "pid": docker_pid,
                "socket": docker_host.removeprefix("unix://"),
                "config": None,
                "log": str(docker_log),
            }
        )
    return shown


def set_pid(home: Home, name: str, pid: int | None) -> None:
    """Update ``cluster.json`` after a process was started or stopped."""
    with _json_lock(home):
        try:
            value = json.loads(home.cluster_json.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        for process in value["processes"]:
            if process["name"] == name:
                process["pid"] = pid
        write_json(home.cluster_json, value)


def save_cluster(home: Home, value: dict[str, Any]) -> None:
    with _json_lock(home):
        write_json(home.cluster_json, value)


def load_cluster(home: Home) -> dict[str, Any]:
    try:
        value = json.loads(home.cluster_json.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def stopped_by_hand(home: Home, name: str) -> Path:
    """The flag file of a process that the keeper must not restart."""
    return home.real / "stopped" / name


def _memcached(home: Home) -> Entry:
    port = home.ports["memcached"]
    command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", "64", "-c", "1024"]
    return _keyed(
        home, Entry("memcached", command, str(home.logs / "memcached.log"), USER, port=port), ""
    )


def _keyed(home: Home, entry: Entry, conf: str) -> Entry:
    """``entry`` with the hash of its command and of all configuration files that it reads."""
    files = [conf, "swift.conf"] if conf else []
    if conf.startswith(("proxy", "object")):
        files += ["storlet.conf", "internal-client.conf"]
    contents = [(home.real_conf / name).read_bytes() for name in files]
    parts: list[str | bytes] = [*entry.command, entry.user, *contents]
    return Entry(**{**asdict(entry), "env": {**entry.env, KEY: cache.digest(parts)}})


def _is_healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _connects(address: Any, family: socket.AddressFamily, kind: socket.SocketKind) -> bool:
    with socket.socket(family, kind) as probe:
        probe.settimeout(3)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


@contextmanager
def _json_lock(home: Home) -> Iterator[None]:
    with (home.real / ".cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
