"""A cluster of the tests: real Swift, real Docker, free ports, a short home; typed access to
``cluster.json``.

The fixture ``cluster`` (``tests/conftest.py``) brings up a cluster and takes it down.  If
``STORLETS_TEST_HOME`` names the home of a running cluster, the fixture uses that one and leaves it
up.
"""

from __future__ import annotations

import atexit
import configparser
import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from storlet_middleware.aio.cache import cache_root
from tests.support import forked_servers
from tests.support.forking import Commands, commands_of
from tests.support.http import Client, log_in
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT: Final = Path(__file__).resolve().parents[2]
LOG_LINES: Final = 15
LOG_COLUMNS: Final = 400
#: A successful request in the access log of a server.
GONE_WELL: Final = re.compile(
    r'"(?:GET|HEAD|PUT|POST|COPY|DELETE|REPLICATE) [^"]*" [23]\d\d | HTTP/1\.[01] [23]\d\d '
)


@dataclass(frozen=True)
class ServerProcess:
    """One line of ``processes`` in ``cluster.json``; ``pid`` is ``None`` where it does not run."""

    name: str
    pid: int | None
    log: Path
    port: int | None = None
    socket: Path | None = None
    config: Path | None = None


@dataclass
class Cluster:
    """A running cluster.  ``description`` is ``cluster.json``, read again at each use, because
    processes restart."""

    home: Path
    environment: Mapping[str, str]
    _clients: dict[str, Client] = field(default_factory=dict)

    @property
    def description(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.home / "cluster.json").read_text(encoding="utf-8"))
        return value

    @property
    def auth_url(self) -> str:
        return str(self.description["auth_url"])

    @property
    def venv(self) -> Path:
        return Path(self.description["venv"])

    @property
    def node_id(self) -> str:
        """The value of the label ``org.storlets`` of this cluster's sandboxes."""
        return str(self.description["node_id"])

    @property
    def docker_host(self) -> str:
        return str(self.description["docker_host"])

    @property
    def run_dir(self) -> Path:
        return Path(self.description["run_dir"])

    @property
    def state_dir(self) -> Path:
        return Path(self.description["state_dir"])

    @property
    def storlet_conf(self) -> Path:
        return Path(self.description["storlet_conf"])

    @property
    def java_api_jar(self) -> Path:
        return Path(self.description["java_api_jar"])

    def pipeline(self) -> list[str]:
        """The middlewares of the proxy server's pipeline."""
        config = configparser.RawConfigParser()
        config.read(Path(self.description["conf_dir"], "proxy-server.conf"))
        return config.get("pipeline:main", "pipeline").split()

    def process(self, name: str) -> ServerProcess:
        """``proxy``, ``object-1``, ``sandboxd``, ``dockerd`` and the like, as they are now."""
        for item in self.description["processes"]:
            if item["name"] == name:
                return ServerProcess(
                    name=name,
                    pid=item["pid"],
                    log=Path(item["log"]),
                    port=item.get("port"),
                    socket=Path(item["socket"]) if item.get("socket") else None,
                    config=Path(item["config"]) if item.get("config") else None,
                )
        raise KeyError(name)

    def is_running(self, name: str) -> bool:
        pid = self.process(name).pid
        return pid is not None and _is_alive(pid)

    def kill(self, name: str, signum: signal.Signals = signal.SIGKILL) -> int:
        """Signal one process and, for SIGKILL, wait until it has ended.  Returns its pid."""
        pid = self.process(name).pid
        if pid is None:
            raise ProcessLookupError(name)
        os.kill(pid, signum)
        if signum == signal.SIGKILL:
            wait_for(lambda: not _is_alive(pid), 10, f"{name} ({pid}) to end")
        return pid

    def start(self, name: str) -> None:
        """Start one process again and wait until it answers."""
        self.run("start", name)

    def stop(self, name: str) -> None:
        """Stop one process; the keeper leaves it down until :meth:`start`."""
        self.run("stop", name)

    def wait_restarted(self, name: str, old_pid: int, seconds: float = 30) -> None:
        """Wait for the keeper to bring a killed ``sandboxd`` or ``dockerd`` back."""
        wait_for(
            lambda: self.process(name).pid not in {None, old_pid} and self.is_running(name),
            seconds,
            f"{name} to be back",
        )

    def configure(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        """Set options (``{"storlet.conf:limits": {"pids": 64}}``; empty = back to the defaults) and
        restart the processes that use them."""
        blocks = [
            "\n".join([f"[{section}]", *(f"{key} = {value}" for key, value in options.items())])
            for section, options in changes.items()
        ]
        Path(self.description["conf_dir"], "overrides.conf").write_text(
            "\n".join(blocks) + "\n", encoding="utf-8"
        )
        self.run("up")

    @contextlib.contextmanager
    def configured(self, changes: Mapping[str, Mapping[str, object]]) -> Iterator[None]:
        """:meth:`configure` for the length of a block."""
        self.configure(changes)
        try:
            yield
        finally:
            self.configure({})

    def client(self, user: str) -> Client:
        """The client of a user, logged in once."""
        if user not in self._clients:
            self._clients[user] = log_in(self.auth_url, user, self.description["users"][user])
        return self._clients[user]

    def logs(self, lines: int = LOG_LINES) -> str:
        """The end of every process's log, without successful requests: few lines, so that a
        failure stays readable."""
        texts = []
        for item in self.description["processes"]:
            log = Path(item["log"])
            if log.exists():
                said = log.read_text(encoding="utf-8", errors="replace").splitlines()
                end = [line[:LOG_COLUMNS] for line in said if not GONE_WELL.search(line)][-lines:]
                texts.append("\n".join([f"--- {item['name']} ({log})", *end]))
        return "\n".join(texts)

    def run(self, *arguments: str) -> str:
        """A command of the tooling on this cluster; its output."""
        variables = {**self.environment, "PYTHONPATH": str(CHECKOUT), **_variables()}
        if not _commands:
            others = {k: v for k, v in variables.items() if not k.startswith("STORLETS_")}
            made = commands_of(Path(sys.prefix), "aio", forked_servers.__name__, others)
            _commands.append(_open.enter_context(made))
        return _commands[0].run(arguments, variables)


#: The result of :func:`fork_servers`.
_parent: list[forked_servers.Parent] = []
#: The commands of all clusters.
_commands: list[Commands] = []
#: The process of commands, its folder, and that of the parent of servers.
_open: Final = contextlib.ExitStack()


def fork_servers() -> None:
    """Start Swift's servers as forks of a parent of this process, from now on."""
    if not _parent:
        folder = _open.enter_context(tempfile.TemporaryDirectory(prefix="storlets-servers-"))
        _parent.append(forked_servers.Parent(Path(folder), os.getpid()))


def start_server(
    command: Sequence[str], **options: Any
) -> forked_servers.Forked | subprocess.Popen[bytes]:
    """:class:`subprocess.Popen`, or a fork if servers are forked."""
    popen = _parent[0].popen if _parent else subprocess.Popen
    return popen(command, **options)


def _variables() -> dict[str, str]:
    return _parent[0].variables if _parent else {}


@atexit.register
def close_commands() -> None:
    """End the processes of commands; a worker of pytest-xdist ends without calls at its exit."""
    _open.close()
    _commands.clear()
    _parent.clear()


def bring_up(home: Path, **choices: str) -> Cluster:
    """A cluster in ``home`` on free ports; ``choices`` are further variables such as
    ``STORLETS_ENCRYPTION="1"``.

    Clusters start in sequence: free ports are chosen before servers bind them, and the first
    cluster of a machine builds the parts that the others use.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("STORLETS_") or key in KEPT
    }
    environment |= {"STORLETS_HOME": str(home), "STORLETS_PORT": "0"} | choices
    cluster = Cluster(home, environment)
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / ".tests-up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster.run("up")
    return cluster


KEPT: Final = {"STORLETS_CACHE", "STORLETS_BASE", "STORLETS_MIRROR", "STORLETS_ROOTFS"}


def attach(home: Path) -> Cluster:
    """A running cluster."""
    cluster = Cluster(home, {**os.environ, "STORLETS_HOME": str(home)})
    if not (home / "cluster.json").exists():
        raise AssertionError(f"no cluster is up in {home}")
    return cluster


def _is_alive(pid: int) -> bool:
    """A zombie counts as dead: its parent may not have reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
