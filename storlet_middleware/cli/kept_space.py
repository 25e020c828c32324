"""Disk space of deleted files that processes of sandboxes keep.

A storlet may keep the objects of its runs: open, mapped into its memory, or as descriptors in
messages to itself.  If such an object is deleted, its space is free only when the storlet's worker
has exited.  The kernel shows these files to root: ``/proc/PID/fd`` and ``/proc/PID/map_files``, and
for messages the number of descriptors in them (``scm_fds`` of a socket in ``/proc/PID/fdinfo``),
without their files.

Files in memory (``memfd``, the sandbox's scratch) are left out: they count for the sandbox's
memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "hugetlbfs"})
_BLOCK_BYTES: Final = 512
_UID: Final = re.compile(r"^Uid:\t\d+\t(\d+)", re.MULTILINE)
_IN_MESSAGES: Final = re.compile(r"^scm_fds:\s*(\d+)", re.MULTILINE)


@dataclass
class Kept:
    """Files and descriptors that the processes of one user keep.

    :param files: the space of each deleted file, by device and inode.
    :param messages: the number of descriptors in messages to each socket, by inode.
    """

    files: dict[tuple[int, int], int] = field(default_factory=dict)
    messages: dict[int, int] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(self.files.values())

    @property
    def in_messages(self) -> int:
        return sum(self.messages.values())


def kept_by(users: Collection[int], proc: Path = PROC) -> dict[int, Kept]:
    """The files and descriptors that the processes of each of ``users`` keep.

    :raises PermissionError: the caller may not look into these processes.
    """
    found = {user: Kept() for user in users}
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        try:
            kept = found.get(user_of(process))
            if kept is not None:
                _look(process, kept)
        except PermissionError:
            raise
        except OSError:
            continue  # it has ended, or is about to
    return found


def user_of(process: Path) -> int:
    """The effective user of a process; -1 if unknown."""
    # The owner of the folder is root for a process that hides its memory.
    match = _UID.search((process / "status").read_text(encoding="ascii", errors="replace"))
    return int(match[1]) if match else -1


def _look(process: Path, kept: Kept) -> None:
    in_memory = memory_devices(process)
    for name in ("fd", "map_files"):
        for link in (process / name).iterdir():
            facts = _facts(link)
            if facts is None:
                continue
            is_deleted = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0
            if is_deleted and facts.st_dev not in in_memory:
                kept.files[facts.st_dev, facts.st_ino] = facts.st_blocks * _BLOCK_BYTES
            elif stat.S_ISSOCK(facts.st_mode):
                count = _descriptors_in(process / "fdinfo" / link.name)
                if count:
                    kept.messages[facts.st_ino] = count


def _facts(link: Path) -> os.stat_result | None:
    try:
        return link.stat()
    except (FileNotFoundError, PermissionError):
        return None  # it was closed or unmapped, or it is no file of this machine's


def _descriptors_in(info: Path) -> int:
    try:
        match = _IN_MESSAGES.search(info.read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        return 0
    return int(match[1]) if match else 0


def memory_devices(process: Path) -> frozenset[int]:
    """The devices of files in memory: the kernel's own one, and whole mounts of the process.

    A mount of a part of a file system is the node's, also if it is in memory: its files do not
    count for the sandbox.
    """
    own = os.memfd_create("device")
    try:
        kernels = os.fstat(own).st_dev
    finally:
        os.close(own)
    mounts = _mounts(process / "mountinfo")
    return frozenset({kernels, *(device for device, kind in mounts if kind in _IN_MEMORY)})


def _mounts(table: Path) -> Iterator[tuple[int, str]]:
    """Device and type of each mount of a whole file system."""
    for line in table.read_text(encoding="utf-8", errors="replace").splitlines():
        mount, _, source = line.partition(" - ")
        device, root = mount.split(" ")[2:4]
        if root == "/":
            major, _, minor = device.partition(":")
            yield os.makedev(int(major), int(minor)), source.split(" ")[0]
