"""Where a cluster lives: its directories, its identity, and the short names under which its processes see them.

``STORLETS_HOME`` may be any directory: below ``/root`` (0700: Swift's user cannot pass), with a space in its name (no
script can start with ``#!/a b/python``), or deeper than the 107 bytes of a Unix socket's path.  Where one of these is so,
the home is mounted (``mount --bind``) at ``/run/storlets-aio/<node id>/home`` and the processes see it there only.
Sockets are always in ``/run/storlets-aio/<node id>/run``.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from .progress import AioError

RUN_ROOT: Final = Path("/run/storlets-aio")
CHECKOUT: Final = Path(__file__).resolve().parents[2]
DEFAULT_PORT: Final = 8080
# Below the kernel's ephemeral range (32768 on): an outgoing connection must not take a server's port while that is down.
FREE_PORTS: Final = range(21000, 32000)
_PLAIN: Final = re.compile(r"[\w/.-]+")
SHORT_PATH: Final = 48
UIDS_PER_CLUSTER: Final = 1000
_IDENTITY: Final = {
    "path": str,
    "node_id": str,
    "uid_first": int,
    "hash_suffix": str,
    "ports": dict,
}
SERVERS: Final = ("proxy", "object-1", "object-2", "container-1", "account-1", "memcached")


@dataclass(frozen=True)
class Home:
    """One cluster's places.  ``real*`` is what the user named; ``root`` and ``conf`` are what its processes see."""

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
        """As the user names it: still true when the cluster is down."""
        return self.real / "logs"

    @property
    def cluster_json(self) -> Path:
        return self.real / "cluster.json"

    @property
    def mounts(self) -> dict[Path, Path]:
        """What is to be mounted: mount point to directory; empty when the names are good as they are."""
        pairs = {self.root: self.real, self.conf: self.real_conf}
        inside = self.conf.is_relative_to(self.root)
        return {
            point: real
            for point, real in pairs.items()
            if point != real and not (point == self.conf and inside)
        }


def open_home(env: Mapping[str, str] = os.environ) -> Home:
    """The cluster that the environment names; its identity is made at the first call and kept in ``settings.json``."""
    real = _path_of(env.get("STORLETS_HOME") or str(CHECKOUT / ".aio"))
    real_conf = _path_of(env.get("STORLETS_CONF") or str(real / "etc"))
    real.mkdir(parents=True, exist_ok=True)
    real.chmod(0o755)
    with _machine_lock(real):
        settings = _read_settings(real)
        if settings.get("path") != str(real):
            settings = _new_settings(real)
        settings["ports"] = _settle_ports(settings.get("ports", {}), env.get("STORLETS_PORT", ""))
        write_json(real / "settings.json", settings)
    return _home_of(real, real_conf, settings)


def find_home(env: Mapping[str, str] = os.environ) -> Home | None:
    """The cluster that the environment names, or ``None`` where there never was one."""
    real = _path_of(env.get("STORLETS_HOME") or str(CHECKOUT / ".aio"))
    settings = _read_settings(real)
    if settings.get("path") != str(real):
        return None
    return _home_of(real, _path_of(env.get("STORLETS_CONF") or str(real / "etc")), settings)


def is_still(home: Home) -> bool:
    """Whether the directory is that of this cluster: it may have been deleted, and another cluster made in its place.

    While the disk does not tell, it is.
    """
    try:
        return _read_settings(home.real).get("node_id") == home.node_id
    except AioError:
        return True


def needs_mount(path: Path) -> bool:
    """Whether Swift's user cannot work with this name: too long, a space in it, or a closed directory above it."""
    if len(str(path)) > SHORT_PATH or not _PLAIN.fullmatch(str(path)):
        return True
    return any(parent.exists() and not parent.stat().st_mode & 0o001 for parent in path.parents)


def check_xattrs(directory: Path) -> None:
    """Swift keeps an object's metadata in extended attributes of its file."""
    probe = directory / ".xattr-probe"
    probe.write_bytes(b"")
    try:
        os.setxattr(probe, "user.swift.probe", b"1")
    except OSError as error:
        raise AioError(
            f"{directory} is on a file system without extended attributes ({error.strerror}), which Swift needs. "
            "Set STORLETS_HOME to a directory on ext4 or XFS."
        ) from error
    finally:
        probe.unlink()


def mount_all(home: Home) -> None:
    """Make the short names; idempotent."""
    home.short.mkdir(parents=True, exist_ok=True)
    for point, real in home.mounts.items():
        real.mkdir(parents=True, exist_ok=True)
        point.mkdir(parents=True, exist_ok=True)
        if point in mounted_below(home.short):
            if point.samefile(real):
                continue
            unmount(point)
        done = subprocess.run(
            ["mount", "--bind", str(real), str(point)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise AioError(
                f"cannot mount {real} at {point}: {done.stderr.strip()}\n"
                "Set STORLETS_HOME to a short path without spaces whose parents everybody may enter, such as "
                "/srv/storlets; then no mount is needed."
            )


def unmount_all(home: Home) -> None:
    """Take every mount and the directory of sockets away; also what an earlier, interrupted try left."""
    for point in sorted(mounted_below(home.short), reverse=True):
        unmount(point)
    # Only now: with a mount still there this would delete the home itself.
    if home.short.exists() and not mounted_below(home.short):
        shutil.rmtree(home.short)
    with suppress(OSError):  # another cluster's directory is in there
        RUN_ROOT.rmdir()


def mounted_below(root: Path) -> list[Path]:
    """Mount points at or below ``root``, as often as they are mounted."""
    return [point for point, _ in _mounts() if point.is_relative_to(root)]


def self_mounts(point: Path) -> list[Path]:
    """``point``, as often as it is a directory mounted on itself."""
    return [
        at for at, source in _mounts() if at == point and source != "/" and str(at).endswith(source)
    ]


def _mounts() -> Iterator[tuple[Path, str]]:
    """Every mount point with the directory of its file system that is seen there."""
    for line in (
        Path("/proc/self/mountinfo")
        .read_text(encoding="utf-8", errors="surrogateescape")
        .splitlines()
    ):
        words = line.split(" ")
        yield Path(_unescape(words[4])), _unescape(words[3])


def unmount(point: Path) -> None:
    """Lazily where it is busy: the processes that used it are gone or about to go."""
    for flags in ([], ["-l"]):
        if not subprocess.run(
            ["umount", *flags, str(point)], capture_output=True, check=False
        ).returncode:
            return
    raise AioError(f"cannot unmount {point}")


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """One ``up``, ``down``, ``start`` or ``stop`` of a cluster at a time; ends with the process, however that ends."""
    with (home.real / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def lock_holder(home: Home) -> int | None:
    """The pid of the command that is under way.  The lock is the kernel's: who has been killed holds none."""
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
    """Another port for each server that does not run (is not in ``busy``) and whose port somebody else has taken."""
    ports = dict(home.ports)
    for name, port in home.ports.items():
        if name in busy or port_is_free(port):
            continue
        if name == "proxy":
            raise AioError(
                f"127.0.0.1:{port} is taken by another program; set STORLETS_PORT, for example to 8081"
            )
        ports[name] = _free_port(taken=set(ports.values()))
    _change_settings(home, {"ports": ports})
    return replace(home, ports=ports)


def remembered(home: Home, name: str, env: Mapping[str, str]) -> str:
    """A choice that belongs to the data, not to a command: once made it holds until it is made differently."""
    value = env.get(name) or str(_read_settings(home.real).get(name, ""))
    _change_settings(home, {name: value})
    return value


def _change_settings(home: Home, changes: Mapping[str, Any]) -> None:
    path = home.real / "settings.json"
    settings = _read_settings(home.real)
    if not settings:
        raise _no_identity(path, "it is gone")
    write_json(path, {**settings, **changes})


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Whole or not at all, for readers, for a crash and for a power cut."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8") as target:
            target.write(json.dumps(value, indent=2) + "\n")
            target.flush()
            os.fsync(target.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _path_of(text: str) -> Path:
    return Path(os.path.realpath(Path(text).expanduser()))


def _home_of(real: Path, real_conf: Path, settings: Mapping[str, Any]) -> Home:
    node_id = settings["node_id"]
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
        uid_first=settings["uid_first"],
        ports=settings["ports"],
        hash_suffix=settings["hash_suffix"],
    )


def _read_settings(real: Path) -> dict[str, Any]:
    """Empty where there never was a cluster. Without its identity one loses its objects: nothing is guessed."""
    path = real / "settings.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise _no_identity(path, str(error)) from error
    wrong = [
        key
        for key, kind in _IDENTITY.items()
        if not isinstance(settings, dict) or not isinstance(settings.get(key), kind)
    ]
    if wrong:
        raise _no_identity(path, f"no sound {', '.join(wrong)} in it")
    return dict(settings)


def _no_identity(path: Path, reason: str) -> AioError:
    return AioError(
        f"{path}, which says which cluster this is, cannot be used: {reason}; put back what it was, or, to begin anew without "
        f"the objects that are stored here, delete {path.parent}"
    )


def _new_settings(real: Path) -> dict[str, Any]:
    """A copied or moved home is a new cluster: two with one identity would clean up each other."""
    return {
        "path": str(real),
        "node_id": secrets.token_hex(6),
        # Sandboxes of two clusters on a machine must not share a uid; a thousand places make that unlikely enough here.
        "uid_first": 1_000_000 + UIDS_PER_CLUSTER * secrets.randbelow(1000),
        "hash_suffix": secrets.token_hex(16),
        "ports": {},
    }


def _settle_ports(ports: Mapping[str, int], wanted: str) -> dict[str, int]:
    """Ports stay what they were (the rings name them); a new ``STORLETS_PORT`` moves the proxy; 0 means a free one."""
    if wanted and (not wanted.isdigit() or int(wanted) > 65535):
        raise AioError(f"STORLETS_PORT={wanted!r}: want a port number, or 0 for a free one")
    settled = dict(ports)
    if wanted == "0":
        if settled.get("proxy") == DEFAULT_PORT:
            del settled["proxy"]
    elif wanted:
        settled["proxy"] = int(wanted)
    else:
        settled.setdefault("proxy", DEFAULT_PORT)
    for name in SERVERS:
        if name not in settled:
            settled[name] = _free_port(taken=set(settled.values()))
    return settled


def _free_port(taken: set[int]) -> int:
    for _ in range(1000):
        port = secrets.choice(FREE_PORTS)
        if port not in taken and port_is_free(port):
            return port
    raise AioError("no free port on 127.0.0.1 between 21000 and 32000")


@contextmanager
def _machine_lock(real: Path) -> Iterator[None]:
    with (real / ".settings.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unescape(text: str) -> str:
    """Undo the octal escapes of ``/proc/self/mountinfo``."""
    return (
        text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
    )
