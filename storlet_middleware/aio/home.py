"""The home of a cluster: its directories, its identity, and the short names for its processes.

``STORLETS_HOME`` may be any directory: below ``/root`` (0700: Swift's user cannot enter), with a
space in its path (no script can start with ``#!/a b/python``), or deeper than the 107 bytes of a
Unix socket's path.  In these cases the home is mounted (``mount --bind``) at
``/run/storlets-aio/<node id>/home``, and the processes see it only there.  Sockets are always in
``/run/storlets-aio/<node id>/run``.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from . import ports, settings
from .progress import AioError

RUN_ROOT: Final = Path("/run/storlets-aio")
CHECKOUT: Final = Path(__file__).resolve().parents[2]
_PLAIN: Final = re.compile(r"[\w/.-]+")
SHORT_PATH: Final = 48


@dataclass(frozen=True)
class Home:
    """The directories of one cluster.

    ``real`` and ``real_conf`` are the user's names; ``root`` and ``conf`` are the names for the
    cluster's processes.
    """

    real: Path
    real_conf: Path
    root: Path
    conf: Path
    node_id: str
    uid_first: int
    ports: Mapping[str, int]
    hash_suffix: str

    @property
    def short(self) -> Path:
        """The cluster's own directory of mounts and sockets."""
        return RUN_ROOT / self.node_id

    @property
    def run(self) -> Path:
        return self.short / "run"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def disks(self) -> Path:
        return self.root / "disks"

    @property
    def logs(self) -> Path:
        """Below the user's name, which is valid while the cluster is down, too."""
        return self.real / "logs"

    @property
    def cluster_json(self) -> Path:
        return self.real / "cluster.json"

    @property
    def mounts(self) -> dict[Path, Path]:
        """Directory by mount point; empty when the user's names can be used."""
        pairs = {self.root: self.real, self.conf: self.real_conf}
        inside = self.conf.is_relative_to(self.root)
        return {
            point: real
            for point, real in pairs.items()
            if point != real and not (point == self.conf and inside)
        }


def open_home(env: Mapping[str, str] = os.environ) -> Home:
    """The cluster that the environment names; the first call makes its identity."""
    real, real_conf = _paths(env)
    real.mkdir(parents=True, exist_ok=True)
    real.chmod(0o755)
    with settings.locked(real):
        found = settings.read(real)
        if found.get("path") != str(real):
            found = settings.new(real)
        found["ports"] = ports.settle(found.get("ports", {}), env.get("STORLETS_PORT", ""))
        settings.write(real, found)
    return _home_of(real, real_conf, found)


def find_home(env: Mapping[str, str] = os.environ) -> Home | None:
    """The cluster that the environment names, or ``None`` where none was ever made."""
    real, real_conf = _paths(env)
    found = settings.read(real)
    if found.get("path") != str(real):
        return None
    return _home_of(real, real_conf, found)


def exists(home: Home) -> bool:
    """Whether the directory still belongs to this cluster: it may be deleted, or replaced.

    True also while the disk cannot be read.
    """
    try:
        return settings.read(home.real).get("node_id") == home.node_id
    except AioError:
        return True


def needs_mount(path: Path) -> bool:
    """Whether Swift's user cannot use a path: too long, special characters, a closed parent."""
    if len(str(path)) > SHORT_PATH or not _PLAIN.fullmatch(str(path)):
        return True
    return any(parent.exists() and not parent.stat().st_mode & 0o001 for parent in path.parents)


def check_xattrs(directory: Path) -> None:
    """Raise an error where files cannot have extended attributes, Swift's store of metadata."""
    probe = directory / ".xattr-probe"
    probe.write_bytes(b"")
    try:
        os.setxattr(probe, "user.swift.probe", b"1")
    except OSError as error:
        raise AioError(
            f"{directory} is on a file system without extended attributes ({error.strerror}), "
            "which Swift needs. Set STORLETS_HOME to a directory on ext4 or XFS."
        ) from error
    finally:
        probe.unlink()


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """One ``up``, ``down``, ``start`` or ``stop`` of a cluster at a time.

    The kernel releases the lock when the process ends.
    """
    with (home.real / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def lock_holder(home: Home) -> int | None:
    """The pid of the running command of a cluster, or ``None``."""
    try:
        with (home.real / ".lock").open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = lock.read()
                return int(text) if text.isdigit() else None
    except OSError:
        pass
    return None


def replace_taken_ports(home: Home, busy: Collection[str]) -> Home:
    """Choose new ports for servers whose port another program has taken.

    ``busy`` names the servers that run now: they have their ports themselves.
    """
    found = dict(home.ports)
    for name, port in home.ports.items():
        if name in busy or ports.port_is_free(port):
            continue
        if name == "proxy":
            raise AioError(
                f"127.0.0.1:{port} is in use by another program. Set STORLETS_PORT to another "
                "port, for example 8081, or to 0 for any free one."
            )
        found[name] = ports.free_port(taken=set(found.values()))
    settings.change(home.real, {"ports": found})
    return replace(home, ports=found)


def remembered(home: Home, name: str, env: Mapping[str, str]) -> str:
    """A choice that belongs to the data: a value in ``env`` holds until another one is given."""
    value = env.get(name) or str(settings.read(home.real).get(name, ""))
    settings.change(home.real, {name: value})
    return value


def _paths(env: Mapping[str, str]) -> tuple[Path, Path]:
    """The home and the directory of configuration files that the environment names."""
    real = _resolved(env.get("STORLETS_HOME") or str(CHECKOUT / ".aio"))
    return real, _resolved(env.get("STORLETS_CONF") or str(real / "etc"))


def _resolved(text: str) -> Path:
    return Path(os.path.realpath(Path(text).expanduser()))


def _home_of(real: Path, real_conf: Path, found: Mapping[str, Any]) -> Home:
    node_id = found["node_id"]
    root = RUN_ROOT / node_id / "home" if needs_mount(real) else real
    if real_conf.is_relative_to(real):
        conf = root / real_conf.relative_to(real)
    else:
        conf = RUN_ROOT / node_id / "etc" if needs_mount(real_conf) else real_conf
    return Home(
        real=real,
        real_conf=real_conf,
        root=root,
        conf=conf,
        node_id=node_id,
        uid_first=found["uid_first"],
        ports=found["ports"],
        hash_suffix=found["hash_suffix"],
    )
