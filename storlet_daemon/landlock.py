"""Separates the processes of each worker from those of the tenant's other storlets, by Landlock.

All storlets of a tenant have one uid. A worker hides its own memory (``kernel.hide_memory``), but a
program that it executes is readable again: its memory, environment and descriptors. A process in a
Landlock domain can trace or inspect processes of the same domain and of domains nested in it, no
others. From interface 6 (Linux 6.12) on, it cannot send signals out of its domain either, nor
connect to abstract sockets of other domains.

Files stay as they are, but for those of one private folder, in which each worker has a folder of
its own: it can read, change and execute no others there, only list their names.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

from storlet_daemon import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of the system calls, the same on all machines."""
_GET_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE = (1 << bit for bit in range(3))
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_TRUNCATE = 1 << 14
_INTERFACE_WITH_TRUNCATE = 3
_REFER = 1 << 13
"""Files may be linked and renamed into other folders. A domain denies that unless it is allowed."""
_SCOPES = 1 << 0 | 1 << 1
"""Abstract sockets and signals."""
_LEAST_INTERFACE = 2
"""The first one can only deny renaming into another folder."""
INTERFACE_WITH_SCOPES = 6
_RULESET = struct.Struct("=QQQ")
_SHORT_RULESET = struct.Struct("=Q")
_RULE = struct.Struct("=Qi")

_SYSCALL = ctypes.CDLL(None, use_errno=True).syscall


def interface() -> int:
    """The kernel's version of Landlock; 0 without it."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)
    except OSError:
        return 0


def separate(version: int, private: str = "", own: str = "") -> None:
    """Put this process and its future children into a domain of their own, for good.

    ``version`` is the result of ``interface``; without Landlock this does nothing. ``private`` is a
    folder in which only the folder ``own`` can be used. Must be called before the process has
    threads.
    """
    if version < _LEAST_INTERFACE:
        return
    access, folder, beside = _REFER, "/", list[str]()
    if private:
        access |= _EXECUTE | _WRITE_FILE | _READ_FILE | _REMOVE_AND_MAKE
        access |= _TRUNCATE if version >= _INTERFACE_WITH_TRUNCATE else 0
        folder, beside = own, list(_beside(private))
    if version >= INTERFACE_WITH_SCOPES:
        attributes = _RULESET.pack(access, 0, _SCOPES)
    else:
        attributes = _SHORT_RULESET.pack(access)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        _allow(ruleset, access, folder)
        for other in beside:
            # Other processes remove folders meanwhile. Without a rule, one of that name is closed.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _allow(ruleset, access, other)
        kernel.forbid_new_privileges()
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _beside(folder: str) -> Iterator[str]:
    """All folders except those above ``folder``, itself and those below; topmost ones only."""
    while folder != "/":
        parent = os.path.dirname(folder)
        with os.scandir(parent) as entries:
            for one in entries:
                if one.path != folder and one.is_dir(follow_symlinks=False):
                    yield one.path
        folder = parent


def _allow(ruleset: int, access: int, folder: str) -> None:
    """Allow ``access`` to everything below ``folder``."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(access, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    result: int = _SYSCALL(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
