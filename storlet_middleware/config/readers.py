"""Readers of option values: text in, value out; ``ValueError`` says which form is expected."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_daemon.runtimes.table import LANGUAGES

#: Paths that every sandbox has already: its control directory, its code, its scratch space, the
#: homes of its storlets, the supervisor, and the kernel's file systems.
SANDBOX_PATHS: Final = (
    "/run/storlets",
    "/var/lib/storlets",
    "/tmp",  # noqa: S108  the sandbox's own
    "/homes",
    "/usr/local/lib/storlets",
    "/dev",
    "/proc",
    "/sys",
)


@dataclass(frozen=True)
class Mount:
    """A directory of the host (``source``) that sandboxes of a trust class see as ``target``."""

    source: str
    target: str
    is_writable: bool


def read_text(text: str) -> str:
    return text.strip()


def read_name(text: str) -> str:
    value = text.strip()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise ValueError("want 1 to 64 letters, digits, '.', '_' or '-'")
    return value


def read_bytes(text: str) -> int:
    """``1024``, ``64K``, ``256 MiB``, ``1g``: units of 1024."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError("want a number of bytes such as 65536, 64K, 256M or 1G")
    return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))


def read_count(text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text.strip()):
        raise ValueError("want a whole number, 0 or more")
    return int(text)


def read_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("want a number of seconds such as 0.5 or 40") from None
    if not 0 < value < 1e7:
        raise ValueError("want more than 0 and less than 10,000,000 seconds")
    return value


def read_cpus(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("want a number of CPUs such as 0.5 or 2; 0 = no limit") from None
    if not 0 <= value <= 1024:
        raise ValueError("want 0 to 1024 CPUs")
    return value


def read_memory(text: str) -> int | float:
    """``12G`` as bytes, ``75%`` as a fraction of the host's memory."""
    match = re.fullmatch(r"\s*(\d{1,3})\s*%\s*", text)
    value = int(match[1]) if match else read_bytes(text)
    if not match and value:
        return value
    if not match or not 1 <= value <= 100:
        raise ValueError("want 1% to 100% or a number of bytes")
    return value / 100


def read_languages(text: str) -> dict[str, tuple[str, ...]]:
    """``python:3.11/3.12, java:17``: versions by language."""
    known = {row.name for row in LANGUAGES}
    languages = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*:\s*([0-9.]+(?:/[0-9.]+)*)\s*", part)
        if not match or match[1] not in known:
            such = ", ".join(f"{row.name}:{row.versions[0]}" for row in LANGUAGES)
            raise ValueError(f"want languages with versions, such as {such}")
        languages[match[1]] = tuple(match[2].split("/"))
    return languages


def read_run_on(text: str) -> str:
    if text not in ("object", "proxy"):
        raise ValueError("want object or proxy")
    return text


def read_overflow(text: str) -> str:
    if text not in ("none", "replica", "proxy"):
        raise ValueError("want none, replica or proxy")
    return text


def read_permission(text: str) -> bool:
    if text not in {"refuse", "allow"}:
        raise ValueError("want refuse or allow")
    return text == "allow"


def read_list(text: str) -> tuple[str, ...]:
    """``a, b``: names without commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def read_weights(text: str) -> dict[str, float]:
    """``AUTH_a:2, AUTH_b:0.5``: weights by account."""
    weights = {}
    for part in read_list(text):
        account, colon, weight = part.rpartition(":")
        try:
            weights[account.strip()] = float(weight)
        except ValueError:
            colon = ""
        if not colon or not account.strip() or not 0.01 <= weights[account.strip()] <= 1000:
            raise ValueError(
                "want accounts with weights from 0.01 to 1000, such as AUTH_a:2, AUTH_b:0.5"
            )
    return weights


def read_mounts(text: str) -> tuple[Mount, ...]:
    """``/srv/models:/models:ro, /srv/out:/out:rw``: directories of the host that a sandbox sees."""
    mounts = []
    for part in read_list(text):
        match = re.fullmatch(r"(/[^:]*):(/[^:]+)(?::(ro|rw))?", part)
        if not match or ".." in Path(match[1]).parts or ".." in Path(match[2]).parts:
            raise ValueError(
                "want host directories such as /srv/models:/models:ro, separated by commas"
            )
        # Spelt as the kernel spells it: the mount is read back from the kernel by its path.
        target = str(Path(f"/{match[2].lstrip('/')}"))
        taken = [path for path in SANDBOX_PATHS if _overlap(Path(path), Path(target))]
        if taken:
            raise ValueError(f"{target} cannot be a mount of a sandbox: {taken[0]} is its own")
        mounts.append(Mount(match[1], target, is_writable=match[3] == "rw"))
    return tuple(mounts)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
