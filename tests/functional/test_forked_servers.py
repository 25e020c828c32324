"""A server that is a fork of the tests' parent of servers is as one that was started as usual."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from storlet_middleware.aio import processes
from storlet_middleware.aio.processes import Program
from storlet_middleware.aio.programs import SWIFT_ENV
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.forked_servers import Parent
from tests.support.proxies import free_port
from tests.support.waiting import wait_for

#: Lines of ``/proc/PID/status`` about one moment, or about one process only.
_CHANGES: Final = re.compile(
    r"Vm|Rss|Hugetlb|.*ctxt_switches|PPid|State|Tgid|Ngid|Pid|NStgid|NSpid|NSpgid|NSsid|FDSize"
)


@pytest.fixture
def further_proxy(cluster: Cluster) -> Iterator[tuple[Program, int]]:
    """A further proxy, which starts as those of clusters, and its port."""
    own, port = cluster.process("proxy"), free_port()
    assert own.config
    config, log = own.config.with_name("proxy-server-3.conf"), own.log.with_name("proxy-3.log")
    text = own.config.read_text(encoding="utf-8")
    config.write_text(re.sub("(?m)^bind_port = .*", f"bind_port = {port}", text), encoding="utf-8")
    config.chmod(0o644)
    command = [str(cluster.venv / "bin/python3"), "-m", "storlet_middleware.aio.serve",
               str(config.parent), "swift-proxy-server", str(config), "-v"]  # fmt: skip
    yield Program("proxy-3", command, log, "swift", {**SWIFT_ENV, "MORE": "a=b"}), port
    config.unlink()
    log.unlink()


def test_a_fork_is_as_a_server_that_was_started_as_usual(
    further_proxy: tuple[Program, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = _facts(*further_proxy, Parent(tmp_path, os.getpid()).popen, monkeypatch)
    assert forked == _facts(*further_proxy, subprocess.Popen, monkeypatch)
    assert [line for line in forked["status"] if line.startswith(("Uid", "Threads"))]


def _facts(
    program: Program, port: int, popen: Callable[..., Any], patch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The state of a new process of this server in ``/proc``."""
    owner = unique("owner")
    patch.setattr(processes, "popen", popen)
    pid = processes.start(owner, program)
    place = Path(f"/proc/{pid}")
    try:
        wait_for(lambda: b"200 OK" in _healthcheck(port), 30, "a proxy")
        environ = (place / "environ").read_bytes().replace(owner.encode(), b"")
        status = (place / "status").read_text(encoding="utf-8").splitlines()
        return {
            "is found": processes.leader(owner, program.name) == pid,
            "session, group": (os.getsid(pid) == pid, os.getpgid(pid) == pid),
            "cwd": (place / "cwd").readlink(),
            "program": (place / "exe").readlink(),
            "command": (place / "cmdline").read_bytes().rstrip(b"\0"),
            "environment": sorted(environ.rstrip(b"\0").split(b"\0")),
            "limits": (place / "limits").read_text(encoding="utf-8"),
            "owner": place.stat().st_uid,
            "control groups": (place / "cgroup").read_text(encoding="utf-8"),
            "input, output, error": [(place / f"fd/{number}").readlink() for number in range(3)],
            "files": _files(place / "fd"),
            "status": [line for line in status if not _CHANGES.match(line)],
        }
    finally:
        assert processes.stop(owner) == [pid]


def _files(folder: Path) -> list[str]:
    """The kinds of open files; a connection that is just closed is not in all of the looks."""
    looks = []
    for _ in range(5):
        time.sleep(0.05)
        links = [str(file.readlink()) for file in folder.iterdir()]
        looks.append(sorted(re.sub(r"\[\d+\]", "", link) for link in links))
    return min(looks, key=len)


def _healthcheck(port: int) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /healthcheck HTTP/1.0\r\n\r\n")
            return connection.recv(100)
    except ConnectionError:
        return b""
