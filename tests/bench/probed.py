"""A proxy and object servers with probes (:mod:`tests.bench.probed_server`) beside those of a
cluster, on the same disks.

They have separate ports and rings and share the rest of the cluster: configuration, containers,
memcached, sandboxd.
"""

from __future__ import annotations

import configparser
import contextlib
import functools
import itertools
import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storlet_middleware.aio.packages import USER
from storlet_middleware.aio.ports import FREE_PORTS, port_is_free
from storlet_middleware.aio.processes import MARK
from storlet_middleware.aio.rings import DISKS
from tests.bench import probed_server
from tests.bench.http import Address, Connection, Request, make_request, open_tcp
from tests.bench.node import wait
from tests.bench.site import Account, Site
from tests.support.cluster import CHECKOUT

_PATIENCE_SECONDS: Final = 30.0
_SERVERS: Final = ("proxy", "object-1", "object-2")
#: The number of ports that are searched for free ones.
_TRIED: Final = 100


class ProbedServers:
    """The servers of :func:`probed_servers`."""

    def __init__(self, addresses: list[Address]) -> None:
        self._addresses = addresses

    def account(self, like: Account) -> Account:
        """The same account through the proxy with probes."""
        return Account(self._addresses[0], like.path_of(""), like.token)

    def switch(self, *, on: bool) -> None:
        """Insert or remove the probes."""
        self._command("on" if on else "off")

    def take(self) -> dict[str, dict[str, int]]:
        """The last time of each stamp of all servers, in nanoseconds, by transaction id."""
        together: dict[str, dict[str, int]] = {}
        for said in self._command("take"):
            for identity, stamps in json.loads(said).items():
                together.setdefault(identity, {}).update(
                    zip(stamps[::2], stamps[1::2], strict=True)
                )
        return together

    def count_calls(self) -> None:
        """Count the calls of Python functions from now on."""
        self._command("count")

    def counted_calls(self) -> dict[str, int]:
        """The calls since :meth:`count_calls`, of all servers, by file; ends the counting."""
        together: dict[str, int] = {}
        for said in self._command("counted"):
            for file, calls in json.loads(said).items():
                together[file] = together.get(file, 0) + calls
        return together

    def _command(self, command: str) -> list[bytes]:
        request = make_request("GET", f"/probes?{command}", {})
        return [_answer(address, request) for address in self._addresses]


def _answer(address: Address, request: Request) -> bytes:
    connection, body = Connection(lambda: open_tcp(address)), bytearray()
    try:
        connection.exchange(request, body.extend)
    finally:
        connection.close()
    return bytes(body)


@contextlib.contextmanager
def probed_servers(site: Site) -> Iterator[ProbedServers]:
    """Run servers with removed probes for the duration of a block; the kernel ends them with the
    benchmark."""
    place = site.cluster.home.resolve() / f"probed-{secrets.token_hex(3)}"
    place.mkdir()
    place.chmod(0o755)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        ports = _free_ports(len(_SERVERS))
        _configure(site, place, dict(zip(_SERVERS, ports, strict=True)))
        for name in _SERVERS:
            _start(site, place, name, stack)
        for name, port in zip(_SERVERS, ports, strict=True):
            if not wait(functools.partial(_answers, port), _PATIENCE_SECONDS):
                said = (place / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"no {name} with probes: {said[-500:].strip()}")
        yield ProbedServers([("127.0.0.1", port) for port in ports])


def _configure(site: Site, place: Path, ports: dict[str, int]) -> None:
    """Write copies of the cluster's files with other ports, and an object ring with those ports."""
    cluster = Path(site.cluster.description["conf_dir"])
    for pattern in ("swift.conf", "*.ring.gz", "object.builder"):
        for path in cluster.glob(pattern):
            shutil.copy(path, place)
    devices = [
        {"device": disk, "zone": node, "port": ports[f"object-{node}"]}
        for disk, node in DISKS.items()
    ]
    rings = {
        "directory": str(place),
        "rings": [{"file": "object", "replicas": 3, "devices": devices}],
    }
    plan = place / "rings.json"
    plan.write_text(json.dumps(rings), encoding="utf-8")
    command = [
        str(site.cluster.venv / "bin/python3"),
        "-m",
        "storlet_middleware.aio.rings",
        str(plan),
    ]
    subprocess.run(command, cwd=CHECKOUT, capture_output=True, check=True)
    for name, port in ports.items():
        parser = configparser.RawConfigParser(default_section="\0")
        parser.read(site.cluster.process(name).config or "", encoding="utf-8")
        for option, value in {
            "bind_port": port,
            "swift_dir": place,
            "log_name": f"probed-{name}",
        }.items():
            parser.set("DEFAULT", option, str(value))
        with (place / f"{name}.conf").open("w", encoding="utf-8") as file:
            parser.write(file)
    shutil.copy(probed_server.__file__, place)
    for path in place.iterdir():
        shutil.chown(path, USER)
        path.chmod(0o600)


def _start(site: Site, place: Path, name: str, stack: contextlib.ExitStack) -> None:
    python, script = str(site.cluster.venv / "bin/python3"), Path(probed_server.__file__).name
    server = f"swift-{name.partition('-')[0]}-server"
    become = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "KILL"]
    command = [
        *become,
        python,
        str(place / script),
        str(place),
        server,
        str(place / f"{name}.conf"),
        "-v",
    ]
    # `down` finds the processes of a cluster by this mark.
    mark = {MARK: f"{site.cluster.node_id}/probed-{name}"}
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": "/",
        "PYTHONWARNINGS": "ignore",
        **mark,
    }
    with (place / f"{name}.log").open("ab") as log:
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(
            command, stdin=nowhere, stdout=log, stderr=log, env=environment, cwd="/"
        )
    stack.callback(process.wait)
    stack.callback(process.kill)


def _free_ports(count: int) -> list[int]:
    some = secrets.SystemRandom().sample(FREE_PORTS, _TRIED)
    return list(itertools.islice(filter(port_is_free, some), count))


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
