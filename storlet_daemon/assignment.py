"""Assign a pre-warmed sandbox to its tenant: the supervisor permanently gives up root.

A pre-warmed sandbox runs as root with three capabilities (``sandboxd/hardening.py``); no code of a
tenant has run in it. ``become`` uses each capability for the last time: SETPCAP to empty the
bounding set, SETGID and SETUID to become the tenant's user. Then it reads the process's status back
from the kernel. Any remaining privilege is an error, after which the node daemon ends the sandbox.

Process 1 calls this before it has any child: a child would keep its privileges.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from storlet_daemon import kernel

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITIES_VERSION_3 = 0x20080522
_LAST_POSSIBLE = 63

_LIBC = ctypes.CDLL(None, use_errno=True)


class NotAssigned(OSError):
    """Some privilege of root remains or would remain: the process must exit."""

    def __init__(self, why: str) -> None:
        """``why`` is one line."""
        super().__init__(errno.EPERM, why)


def become(uid: int, gid: int) -> None:
    """Become this user irrevocably, without any privilege.

    Raises ``OSError``; then this process must exit.
    """
    if uid <= 0 or gid <= 0:
        raise NotAssigned(f"uid {uid} and gid {gid} are not a tenant's")
    if len(os.listdir("/proc/self/task")) != 1:
        raise NotAssigned("another thread would keep its capabilities")
    _drop_bounding_set()
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    _clear_capabilities()
    kernel.hide_memory()  # a change of the uid may undo it
    left = faults(_status(), uid, gid)
    if left:
        raise NotAssigned("; ".join(left))


def faults(status: dict[str, str], uid: int, gid: int) -> list[str]:
    """The privileges in ``/proc/self/status`` that a tenant's process must not have."""
    found = []
    for name, wanted in (("Uid", uid), ("Gid", gid)):
        if status.get(name, "").split() != [str(wanted)] * 4:
            found.append(f"{name} is {status.get(name)}, not {wanted}")
    if status.get("Groups", "?").split():
        found.append(f"Groups is {status.get('Groups')}")
    found += [
        f"{name} is {status.get(name)}"
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        if status.get(name, "").strip("0") or not status.get(name)
    ]
    if status.get("NoNewPrivs") != "1":
        found.append(f"NoNewPrivs is {status.get('NoNewPrivs')}")
    return found


def _drop_bounding_set() -> None:
    for capability in range(_LAST_POSSIBLE + 1):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL and capability > 0:  # the last capability of this kernel
                return
            raise


def _clear_capabilities() -> None:
    header = struct.pack("=Ii", _CAPABILITIES_VERSION_3, 0)
    if _LIBC.capset(header, struct.pack("=6I", 0, 0, 0, 0, 0, 0)) != 0:
        _raise_errno()


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        pairs = (line.partition(":") for line in lines)
        return {name: value.strip() for name, _, value in pairs}


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        _raise_errno()


def _raise_errno() -> None:
    error = ctypes.get_errno()
    raise OSError(error, os.strerror(error))
