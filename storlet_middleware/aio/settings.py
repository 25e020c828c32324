"""``settings.json`` of a cluster's home: its identity, its ports, choices that belong to its data.

Without its identity a cluster loses its objects, so a damaged file is an error and never replaced.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .progress import AioError

UIDS_PER_CLUSTER: Final = 1000
_REQUIRED: Final = {
    "path": str,
    "node_id": str,
    "uid_first": int,
    "hash_suffix": str,
    "ports": dict,
}


def read(real: Path) -> dict[str, Any]:
    """The settings of a home; empty where no cluster was ever made."""
    path = _path(real)
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise _unusable(path, str(error)) from error
    found = settings if isinstance(settings, dict) else {}
    wrong = [key for key, kind in _REQUIRED.items() if not isinstance(found.get(key), kind)]
    if wrong:
        raise _unusable(path, f"missing or invalid: {', '.join(wrong)}")
    return dict(settings)


def change(real: Path, changes: Mapping[str, Any]) -> None:
    """Change some settings of an existing cluster."""
    settings = read(real)
    if not settings:
        raise _unusable(_path(real), "the file does not exist any more")
    write(real, {**settings, **changes})


def write(real: Path, settings: Mapping[str, Any]) -> None:
    """Replace the settings."""
    write_json(_path(real), settings)


def new(real: Path) -> dict[str, Any]:
    """The settings of a new cluster.

    A copied or moved home is a new cluster: two with one identity would remove each other's
    processes and containers.
    """
    return {
        "path": str(real),
        "node_id": secrets.token_hex(6),
        # Sandboxes of two clusters on a machine must not share a uid.  With a thousand ranges a
        # collision is improbable.
        "uid_first": 1_000_000 + UIDS_PER_CLUSTER * secrets.randbelow(1000),
        "hash_suffix": secrets.token_hex(16),
        "ports": {},
    }


@contextmanager
def locked(real: Path) -> Iterator[None]:
    """One change of the settings at a time."""
    with (real / ".settings.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file atomically, for readers, after a crash and after a power failure."""
    new_file = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new_file.open("w", encoding="utf-8") as target:
            target.write(json.dumps(value, indent=2) + "\n")
            target.flush()
            os.fsync(target.fileno())
        new_file.replace(path)
    finally:
        new_file.unlink(missing_ok=True)


def _path(real: Path) -> Path:
    return real / "settings.json"


def _unusable(path: Path, reason: str) -> AioError:
    return AioError(
        f"{path}, which identifies the cluster, cannot be used: {reason}. Restore it from a "
        f"backup; or, to start over without the objects stored here, delete {path.parent}"
    )
