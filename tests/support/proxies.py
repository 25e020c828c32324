"""Further proxies of a cluster, with a changed configuration and the same storage servers; further
memcacheds."""

from __future__ import annotations

import configparser
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import Cluster, start_server
from tests.support.forked_servers import Forked
from tests.support.http import Client
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class OtherProxy:
    """A running proxy server."""

    port: int
    process: Forked | subprocess.Popen[bytes]
    log: Path

    @property
    def auth_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/auth/v1.0"

    def client(self, user: Client) -> Client:
        """The same user at this proxy; tokens are valid at all proxies of a cluster."""
        url = f"http://127.0.0.1:{self.port}{user.version_url.path}"
        return Client(url, user.token, user.user)

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def other_proxy(
    cluster: Cluster,
    changes: Mapping[str, Mapping[str, str]] | None = None,
    constraints: Mapping[str, str] | None = None,
) -> Iterator[OtherProxy]:
    """Another proxy of ``cluster``, with ``changes`` to its configuration (section -> option ->
    value), and with other ``constraints`` of ``swift.conf``."""
    conf_dir = Path(cluster.description["conf_dir"])
    config, port = _parsed(conf_dir / "proxy-server.conf"), free_port()
    swift = _parsed(conf_dir / "swift.conf")
    swift["swift-constraints"].update(constraints or {})
    own = ("DEFAULT", {"bind_port": str(port), "workers": "0"})
    for section, options in (own, *(changes or {}).items()):
        if section != config.default_section and not config.has_section(section):
            config.add_section(section)
        for option, value in options.items():
            config.set(section, option, value)
    with tempfile.TemporaryDirectory(prefix="storlets-proxy-") as directory:
        path = Path(directory, "proxy-server.conf")
        with path.open("w", encoding="utf-8") as file:
            config.write(file)
        with Path(directory, "swift.conf").open("w", encoding="utf-8") as file:
            swift.write(file)
        log = Path(directory, "proxy.log")
        command = [str(cluster.venv / "bin/python3"), "-m", "storlet_middleware.aio.serve",
                   directory, "swift-proxy-server", str(path), "-v"]  # fmt: skip
        with log.open("wb") as output:
            process = start_server(command, cwd="/", stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for(
                lambda: process.poll() is not None or _listens(port), 30, f"a proxy on port {port}"
            )
            assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
            yield OtherProxy(port, process, log)
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def proxy_with_options(
    cluster: Cluster, options: Mapping[str, Mapping[str, object]]
) -> Iterator[OtherProxy]:
    """Another proxy of ``cluster``, with ``options`` of ``storlet.conf`` (section -> option)."""
    config = _parsed(cluster.storlet_conf)
    for section, values in options.items():
        if not config.has_section(section):
            config.add_section(section)
        for name, value in values.items():
            config.set(section, name, str(value))
    with tempfile.TemporaryDirectory(prefix="storlets-options-") as directory:
        path = Path(directory, "storlet.conf")
        with path.open("w", encoding="utf-8") as file:
            config.write(file)
        # Swift's user reads it.
        for each, mode in ((path.parent, 0o755), (path, 0o644)):
            each.chmod(mode)
        with other_proxy(cluster, {"filter:storlets": {"storlet_conf_path": str(path)}}) as proxy:
            yield proxy


@contextmanager
def other_memcached() -> Iterator[str]:
    """Run a separate memcached; return its address."""
    port = free_port()
    command = [
        "memcached",
        "-u",
        "nobody",
        "-l",
        "127.0.0.1",
        "-p",
        str(port),
        "-U",
        "0",
        "-m",
        "16",
    ]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: _listens(port), 10, f"memcached on port {port}")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _parsed(path: Path) -> configparser.RawConfigParser:
    config = configparser.RawConfigParser()
    config.read_string(path.read_text(encoding="utf-8"))
    return config


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
