"""A cluster of the tests' own: real Swift, real Docker, free ports, a short home; and typed access to ``cluster.json``.

Two ways to get one.  The fixture ``cluster`` (``tests/conftest.py``) brings up the session's and takes it down.  With
``STORLETS_TEST_HOME`` naming a home, a cluster that is up there is used and left up: handy while one writes tests.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT: Final = Path(__file__).resolve().parents[2]
LOG_LINES: Final = 15
LOG_COLUMNS: Final = 400
#: A request in the access log of a server that went well.
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


@dataclass(frozen=True)
class Reply:
    """A whole answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Cluster:
    """A running cluster.  ``description`` is ``cluster.json``, read anew at each use: processes come and go."""

    home: Path
    environment: Mapping[str, str]
    _tokens: dict[str, tuple[str, str]] = field(default_factory=dict)

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
        """Signal one process and, for SIGKILL, wait until it is gone.  Returns its pid."""
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
        """Set options (``{"storlet.conf:limits": {"pids": 64}}``; empty = back to the defaults) and restart what they concern."""
        blocks = [
            "\n".join([f"[{section}]", *(f"{key} = {value}" for key, value in options.items())])
            for section, options in changes.items()
        ]
        Path(self.description["conf_dir"], "overrides.conf").write_text(
            "\n".join(blocks) + "\n", encoding="utf-8"
        )
        self.run("up")

    @contextmanager
    def configured(self, changes: Mapping[str, Mapping[str, object]]) -> Iterator[None]:
        """:meth:`configure` for the length of a block."""
        self.configure(changes)
        try:
            yield
        finally:
            self.configure({})

    def token(self, user: str) -> tuple[str, str]:
        """Storage URL and token of a user, asked for once."""
        if user not in self._tokens:
            key = self.description["users"][user]
            reply = self.http("GET", self.auth_url, {"X-Auth-User": user, "X-Auth-Key": key})
            if reply.status != 200:
                raise AssertionError(f"{user} cannot log in: {reply}")
            self._tokens[user] = (reply.headers["x-storage-url"], reply.headers["x-auth-token"])
        return self._tokens[user]

    def request(
        self,
        user: str,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        seconds: float = 90,
    ) -> Reply:
        """One request of ``user`` to ``<its storage URL>/<path>``; ``path`` is quoted already and may carry a query."""
        url, token = self.token(user)
        target = f"{url}/{path}" if path and not path.startswith("?") else url + path
        return self.http(
            method, target, {"X-Auth-Token": token, **(headers or {})}, body, seconds=seconds
        )

    def http(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        seconds: float = 90,
    ) -> Reply:
        """One request on a connection of its own; a body that breaks off raises ``http.client.IncompleteRead``."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body=body or None, headers=dict(headers))
            answer = connection.getresponse()
            return Reply(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def logs(self, lines: int = LOG_LINES) -> str:
        """The end of every process's log, without requests that went well: few lines, so that a failure stays readable."""
        texts = []
        for item in self.description["processes"]:
            log = Path(item["log"])
            if log.exists():
                said = log.read_text(encoding="utf-8", errors="replace").splitlines()
                end = [line[:LOG_COLUMNS] for line in said if not GONE_WELL.search(line)][-lines:]
                texts.append("\n".join([f"--- {item['name']} ({log})", *end]))
        return "\n".join(texts)

    def run(self, *arguments: str, seconds: float = 300) -> str:
        """A command of the tooling on this cluster; its output."""
        command = [sys.executable, "-m", "storlet_middleware.aio", *arguments]
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise AssertionError(
                f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout


def bring_up(home: Path, **choices: str) -> Cluster:
    """A cluster in ``home`` on free ports; ``choices`` are further variables such as ``STORLETS_ENCRYPTION="1"``."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("STORLETS_") or key in KEPT
    }
    environment |= {"STORLETS_HOME": str(home), "STORLETS_PORT": "0"} | choices
    cluster = Cluster(home, environment)
    cluster.run("up", seconds=900)
    return cluster


KEPT: Final = {"STORLETS_CACHE", "STORLETS_BASE", "STORLETS_MIRROR", "STORLETS_ROOTFS"}


def attach(home: Path) -> Cluster:
    """A cluster that is up already."""
    cluster = Cluster(home, {**os.environ, "STORLETS_HOME": str(home)})
    if not (home / "cluster.json").exists():
        raise AssertionError(f"no cluster is up in {home}")
    return cluster


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until ``condition`` is true; the failure names what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    """A zombie is dead; nobody may have asked for it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
