"""The benchmark's storage nodes: an object server, a network and a disk each; all end with the
benchmark.

A node is one process: an object server in a network namespace without a name, and in a mount
namespace in which its disk is mounted: ext4 on a loop device over a file that has been deleted.
The kernel kills it when the benchmark ends for any reason, and with it removes the namespaces, the
pair of virtual devices, the mount, the loop device and the file's space.

The file of a disk is in the page cache, so the disk is as fast as memory. The kernel's read
throttle for the control group of a sandbox limits it (:meth:`StorageNode.limit_reads`). The kernel
chooses its read-ahead, unless a row does (:meth:`StorageNode.limit_read_ahead`).
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_middleware.aio.packages import USER
from storlet_middleware.aio.processes import MARK
from tests.bench.node import wait
from tests.bench.site import Site
from tests.support.cluster import CHECKOUT

_PORT: Final = 6200
_PATIENCE_SECONDS: Final = 30.0
#: Storage policies of the cluster have other indices.
_FIRST_POLICY: Final = 20
#: For the file system's own needs.
_ROOM: Final = 1.25

#: Size of the disk, directory, user, Python, Swift's configuration, the server's configuration.
_SCRIPT: Final = """
set -e
truncate -s "$1" "$2/image"
mkfs.ext4 -q -O ^has_journal -N 4096 -E lazy_itable_init=0,nodiscard "$2/image"
mkdir -p "$2/devices/disk"
mount -o loop,noatime "$2/image" "$2/devices/disk"
rm "$2/image"
chown "$3:$3" "$2/devices/disk"
ip link set lo up
echo "the disk is there"
read -r _
# A change of the user makes the kernel forget with whom to end: said anew.
exec setpriv --reuid "$3" --regid "$3" --clear-groups --pdeathsig KILL \
    "$4" -m storlet_middleware.aio.serve "$5" swift-object-server "$6" -v
"""


class NoNodes(Exception):
    """This machine cannot have such nodes; the text is the reason."""


@dataclass(frozen=True)
class StorageNode:
    """One of :func:`storage_nodes`.  ``policy`` is the storage policy whose objects are only on its
    disk."""

    policy: str
    index: int
    place: Path
    address: str
    process: subprocess.Popen[bytes]
    talk: socket.socket

    @property
    def disk(self) -> Path:
        """Path of the disk for the benchmark's process."""
        return Path(f"/proc/{self.process.pid}/root{self.place}/devices/disk")

    def limit_reads(self, pids: list[int], bytes_per_second: int) -> None:
        """Limit the reads of the control groups of ``pids`` from this node's disk; other processes
        are not limited."""
        number = self._device()
        for group in {_group_of(pid) for pid in pids}:
            if (group / "io.max").exists():
                (group / "io.max").write_text(f"{number} rbps={bytes_per_second}", encoding="ascii")
            else:
                (group / "blkio.throttle.read_bps_device").write_text(
                    f"{number} {bytes_per_second}", encoding="ascii"
                )

    def limit_read_ahead(self, kibibytes: int) -> None:
        """Bound what the kernel requests from this disk at a time."""
        setting = Path(f"/sys/dev/block/{self._device()}/queue/read_ahead_kb")
        setting.write_text(str(kibibytes), encoding="ascii")

    def _device(self) -> str:
        """The numbers of the disk, as the kernel writes them."""
        device = self.disk.stat().st_dev
        return f"{os.major(device)}:{os.minor(device)}"

    def forget(self) -> None:
        """Drop the objects from the page cache, so that the next read is from the disk."""
        for path in self.disk.glob("objects*/**/*.data"):
            with path.open("rb") as data:
                os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def ring(self) -> dict[str, object]:
        device = {"device": "disk", "zone": 1, "ip": self.address, "port": _PORT}
        return {"file": f"object-{self.index}", "replicas": 1, "devices": [device]}

    def section(self) -> tuple[str, dict[str, object]]:
        """Of the cluster's options: the storage policy."""
        return f"swift.conf:storage-policy:{self.index}", {
            "name": self.policy,
            "policy_type": "replication",
        }

    def log_end(self) -> str:
        return (self.place / "log").read_text(encoding="utf-8", errors="replace")[-500:].strip()


@contextlib.contextmanager
def storage_nodes(
    site: Site,
    count: int,
    size: int,
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> Iterator[list[StorageNode]]:
    """``count`` nodes beside those of ``site``, with room for ``size`` bytes of objects each.

    :param options: further changes of the cluster's options.
    """
    # 198.18.0.0/15 is for tests of networks (RFC 2544).
    subnet = f"198.19.{secrets.randbelow(256)}"
    with contextlib.ExitStack() as stack:
        try:
            nodes = [
                _with_disk(site, number, f"{subnet}.{4 * number + 2}", size, stack)
                for number in range(count)
            ]
            _build_rings(site, nodes)
            site.configure({**(options or {}), **dict(node.section() for node in nodes)})
            for number, node in enumerate(nodes):
                _serve(node, f"{subnet}.{4 * number + 1}")
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoNodes(f"no object servers in namespaces: {error}") from error
        yield nodes


def _with_disk(
    site: Site, number: int, address: str, size: int, stack: contextlib.ExitStack
) -> StorageNode:
    """Start the process and mount its disk."""
    policy, place = f"node-{number}", site.cluster.home.resolve() / f"nodes/{number}"
    place.mkdir(parents=True)
    conf_dir, python = site.cluster.description["conf_dir"], str(site.cluster.venv / "bin/python3")
    conf = _write_conf(conf_dir, place, policy)
    words = [str(int(size * _ROOM)), str(place), USER, python, conf_dir, str(conf)]
    # `down` finds the processes of a cluster by this mark.
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        MARK: f"{site.cluster.node_id}/{policy}",
    }
    talk, theirs = socket.socketpair()
    stack.enter_context(talk)
    with theirs, (place / "log").open("ab") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "sh", "-c", _SCRIPT, "sh", *words],
            stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=log, env=environment,
        )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.kill)
    node = StorageNode(policy, _FIRST_POLICY + number, place, address, process, talk)
    if not talk.recv(100):
        raise NoNodes(f"no disk in a namespace: {node.log_end()}")
    return node


def _write_conf(conf_dir: str, place: Path, name: str) -> Path:
    """Write the configuration of the cluster's first object server with another disk and
    network."""
    parser = configparser.RawConfigParser(default_section="\0")
    parser.read(Path(conf_dir, "object-server-1.conf"), encoding="utf-8")
    own = {"bind_ip": "0.0.0.0", "bind_port": _PORT, "devices": place / "devices", "log_name": name}
    for option, value in own.items():
        parser.set("DEFAULT", option, str(value))
    path = place / "object-server.conf"
    with path.open("w", encoding="utf-8") as file:
        parser.write(file)
    shutil.chown(path, USER)
    return path


def _build_rings(site: Site, nodes: list[StorageNode]) -> None:
    plan = site.cluster.home / "nodes/rings.json"
    directory = site.cluster.description["conf_dir"]
    plan.write_text(
        json.dumps({"directory": directory, "rings": [node.ring() for node in nodes]}),
        encoding="utf-8",
    )
    command = [
        str(site.cluster.venv / "bin/python3"),
        "-m",
        "storlet_middleware.aio.rings",
        str(plan),
    ]
    subprocess.run(command, cwd=CHECKOUT, capture_output=True, check=True)


def _serve(node: StorageNode, our_address: str) -> None:
    """Create the pair of devices between the node's network and the host's, and the object
    server."""
    pid, ours = str(node.process.pid), f"bn-{secrets.token_hex(3)}"
    inside = ("nsenter", "--net", "--target", pid)
    _ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", pid)
    for where, device, address in (((), ours, our_address), (inside, "eth0", node.address)):
        _ip("addr", "add", f"{address}/30", "dev", device, inside=where)
        _ip("link", "set", device, "up", inside=where)
    node.talk.sendall(b"\n")
    if not wait(lambda: _answers(node.address), _PATIENCE_SECONDS):
        raise NoNodes(f"the object server of a node does not answer: {node.log_end()}")


def _answers(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, _PORT), 1):
        return True
    return False


def _group_of(pid: int) -> Path:
    """The directory of a process's control group for block devices, in either version of them."""
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        number, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return Path(f"/sys/fs/cgroup/blkio{path}")
        if number == "0" and Path(f"/sys/fs/cgroup{path}/io.max").exists():
            return Path(f"/sys/fs/cgroup{path}")
    raise NoNodes("this kernel has no control groups that limit block devices")


def _ip(*words: str, inside: tuple[str, ...] = ()) -> None:
    subprocess.run([*inside, "ip", *words], capture_output=True, check=True)
