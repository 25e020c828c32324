"""Keeps workers from sending descriptors to anything but their supervisor, on older kernels.

A descriptor in a message costs its receiver time: the kernel closes it there, which takes an
inotify descriptor eight milliseconds. Swift's processes read what a storlet writes, so a storlet
could stop them. Since Linux 6.16 they refuse such messages (``SO_PASSRIGHTS``). For an older kernel
a worker gives up the system calls that send them, for itself and all its children, except
``sendmsg`` on the descriptor number of the channel to its supervisor.

The number is safe because it is above the worker's limit of open files: once the limit is lowered,
no call can give that number to another file, in this process or in a child.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import struct

from storlet_daemon import kernel

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_OPEN_FILES_MAX = 65536
_MACHINES = {"x86_64": (0xC000003E, 46, 307), "aarch64": (0xC00000B7, 211, 269)}
"""By ``uname``: the kernel's number of the machine, of ``sendmsg`` and of ``sendmmsg``."""


def confine(channel: int) -> int:
    """Move ``channel`` above the limit of open files, and install the filter; the new number.

    The limit is one lower then.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = (_OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else hard) - 1
    moved = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, limit)
    os.close(channel)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    machine = _MACHINES.get(os.uname().machine)
    if machine is not None:
        _install(_program(moved, *machine))
    return moved


def _program(channel: int, machine: int, sendmsg: int, sendmmsg: int) -> bytes:
    """Allows all but ``sendmmsg``, and ``sendmsg`` on any descriptor but ``channel``.

    Each row: operation, rows to skip if equal and if not, value.
    """
    rows = (
        (_LOAD, 0, 0, _MACHINE),
        # The sandbox's own profile kills a process that uses another calling convention.
        (_EQUAL, 0, 5, machine),
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 4, 0, sendmmsg),
        (_EQUAL, 0, 2, sendmsg),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 0, 1, channel),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


class _Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("rows", ctypes.c_ushort), ("start", ctypes.c_void_p))


def _install(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    address = ctypes.cast(buffer, ctypes.c_void_p)
    kernel.filter_calls(bytes(_Program(len(program) // 8, address)))
