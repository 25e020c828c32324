"""The cache of what takes long to make: Python environments, Java parts.  Shared by clusters.

Each directory has the hash of its sources in its name, and is valid once its ``.complete`` file
exists.  So an interrupted build is repeated, and checkouts do not affect each other.  The cache may
be deleted while no cluster runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

KEEP_DAYS: Final = 14


def cache_root() -> Path:
    """The cache's directory, readable by Swift's user when run as root; see ``STORLETS_CACHE``."""
    named = os.environ.get("STORLETS_CACHE")
    if named:
        return Path(os.path.realpath(named))
    if os.geteuid() == 0:
        return Path("/var/cache/storlets-aio")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "storlets-aio"


def has(kind: str, key: str) -> bool:
    """Whether :func:`made` would find it complete."""
    return (cache_root() / f"{kind}-{key}/.complete").exists()


def digest(parts: Iterable[str | bytes]) -> str:
    """Hash of ``parts`` in their order: twelve hexadecimal digits."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.hexdigest()[:12]


def tree_digest(root: Path, names: Iterable[str]) -> str:
    """Hash of path, mode and content of all source files below ``root``'s ``names``."""
    parts: list[str | bytes] = []
    for name in sorted(names):
        top = root / name
        files = sorted(tree_files(top)) if top.is_dir() else [top]
        for path in files:
            if path.is_file():
                parts += [
                    str(path.relative_to(root)),
                    str(path.stat().st_mode & 0o111),
                    path.read_bytes(),
                ]
    return digest(parts)


def tree_files(top: Path) -> Iterable[Path]:
    """The source files below ``top``: no byte code, no build output, nothing hidden.

    Links are followed, because ``storlet_middleware/bundle`` is a folder of ``storlet_client``.
    """
    for directory, folders, files in os.walk(top, followlinks=True):
        folders[:] = [
            f
            for f in folders
            if not f.startswith(".") and f not in {"__pycache__", "target", "build"}
        ]
        for name in files:
            if not name.startswith(".") and not name.endswith((".pyc", ".egg-info")):
                yield Path(directory) / name


def made(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The directory ``<kind>-<key>``, made by ``make`` when missing; one build at a time."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    place = root / f"{kind}-{key}"
    complete = place / ".complete"
    with (root / f".{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(place)
            complete.touch()
            _evict_old(root, kind, keep=place)
        os.utime(complete)
    return place


def touch(place: Path) -> None:
    """Mark this layer and the layers below it as used."""
    for directory in [place, *(Path(line.strip()) for line in _below(place))]:
        complete = directory / ".complete"
        if complete.exists():
            os.utime(complete)


def _below(place: Path) -> list[str]:
    try:
        return (place / ".below").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _evict_old(root: Path, kind: str, keep: Path) -> None:
    """Evict directories unused for ``KEEP_DAYS``; the keeper marks those of running clusters."""
    for place in root.glob(f"{kind}-*"):
        complete = place / ".complete"
        if place != keep and (
            not complete.exists() or complete.stat().st_mtime < time.time() - KEEP_DAYS * 86400
        ):
            shutil.rmtree(place, ignore_errors=True)
