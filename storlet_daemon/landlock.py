"""Separates the processes of each worker from those of the tenant's other storlets, by Landlock.

All storlets of a tenant have one uid. A worker hides its own memory (``kernel.hide_memory``), but a
program that it executes is readable again: its memory, environment and descriptors. A process in a
Landlock domain can trace or inspect processes of the same domain and of domains nested in it, no
others. From interface 6 (Linux 6.12) on, it cannot send signals out of its domain either, nor
connect to abstract sockets of other domains. Its files stay as they are.
"""

from __future__ import annotations

import ctypes
import os
import struct

from storlet_daemon import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of the system calls, the same on all machines."""
_GET_VERSION = 1
_PATH_BENEATH = 1
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


def separate(version: int) -> None:
    """Put this process and its future children into a domain of their own, for good.

    ``version`` is the result of ``interface``; without Landlock this does nothing. Must be called
    before the process has threads.
    """
    if version < _LEAST_INTERFACE:
        return
    if version >= INTERFACE_WITH_SCOPES:
        attributes = _RULESET.pack(_REFER, 0, _SCOPES)
    else:
        attributes = _SHORT_RULESET.pack(_REFER)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(_REFER, root), 0)
        kernel.forbid_new_privileges()
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(root)
        os.close(ruleset)


def _call(number: int, *arguments: object) -> int:
    result: int = _SYSCALL(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
