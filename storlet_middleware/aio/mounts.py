"""Bind mounts: made for homes whose own path cannot be used, found and removed by ``down``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .home import RUN_ROOT, Home
from .progress import AioError


def mount_all(home: Home) -> None:
    """Mount a home under its short names.  Idempotent."""
    home.short.mkdir(parents=True, exist_ok=True)
    for point, real in home.mounts.items():
        real.mkdir(parents=True, exist_ok=True)
        point.mkdir(parents=True, exist_ok=True)
        if point in mounted_below(home.short):
            if point.samefile(real):
                continue
            unmount(point)
        command = ["mount", "--bind", str(real), str(point)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AioError(
                f"cannot mount {real} at {point}: {done.stderr.strip()}\n"
                "Set STORLETS_HOME to a short path without spaces whose parent directories every "
                "user may enter, such as /srv/storlets; then no mount is needed."
            )


def unmount_all(home: Home) -> None:
    """Remove all mounts and the directory of sockets, also those of an interrupted attempt."""
    for point in sorted(mounted_below(home.short), reverse=True):
        unmount(point)
    # Never with a mount left: that would delete the home itself.
    if home.short.exists() and not mounted_below(home.short):
        shutil.rmtree(home.short)
    with suppress(OSError):  # not empty: another cluster has a directory there
        RUN_ROOT.rmdir()


def mounted_below(root: Path) -> list[Path]:
    """Mount points at or below ``root``; one that is mounted twice is listed twice."""
    return [point for point, _ in _mounts() if point.is_relative_to(root)]


def self_mounts(point: Path) -> list[Path]:
    """``point``, once for each time that it is mounted on itself."""
    return [
        at for at, source in _mounts() if at == point and source != "/" and str(at).endswith(source)
    ]


def unmount(point: Path) -> None:
    """Unmount; lazily when it is busy: the processes that use it have ended or are ending."""
    for flags in ([], ["-l"]):
        command = ["umount", *flags, str(point)]
        if not subprocess.run(command, capture_output=True, check=False).returncode:
            return
    raise AioError(f"cannot unmount {point}")


def _mounts() -> Iterator[tuple[Path, str]]:
    """Every mount point, with the mounted directory's path in its file system."""
    table = Path("/proc/self/mountinfo")
    for line in table.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        words = line.split(" ")
        yield Path(_unescape(words[4])), _unescape(words[3])


def _unescape(text: str) -> str:
    """Undo the octal escapes of ``/proc/self/mountinfo``."""
    for escape, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, char)
    return text
