"""Signals process 1 of its sandbox as if from outside, by every system call that can."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_F_SETSIG = 10
_NUMBERS = {"x86_64": (129, 200, 234), "aarch64": (138, 130, 131)}  # rt_sigqueueinfo, tkill, tgkill
_REAL_TIME = 40
_LIBC = ctypes.CDLL(None, use_errno=True)


class Pretender:
    """With ``do=pretend`` it sends them; else it reports the files of the previous run in the
    scratch."""

    def __init__(self, logger: Any) -> None:
        """Nothing to remember."""

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        if params.get("do") == "pretend":
            with Path("/tmp/before").open("w") as file:
                file.write("the same sandbox")
            for number in (signal.SIGTERM, signal.SIGINT):
                _pretend(number)
            time.sleep(0.1)
        out_files[0].set_metadata({})
        with Path("/tmp/before").open() as file:
            out_files[0].write(file.read().encode())


def _pretend(number: int) -> None:
    queue, tkill, tgkill = _NUMBERS[platform.machine()]
    _LIBC.syscall(queue, 1, number, struct.pack("iii116x", number, 0, -1))  # sender 0
    one, other = socket.socketpair()
    with one, other:
        with suppress(PermissionError):  # the policy of system calls refuses the choice of a signal
            fcntl.fcntl(one, _F_SETSIG, number)
        fcntl.fcntl(one, fcntl.F_SETOWN, 1)
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        other.send(b"x")  # from a descriptor: without a sender
    # Once the queue of pending signals is full, the kernel drops the sender of the next one.
    signal.pthread_sigmask(signal.SIG_BLOCK, [_REAL_TIME])
    while _LIBC.sigqueue(os.getpid(), _REAL_TIME, None) == 0:
        pass
    _LIBC.syscall(tkill, 1, number)
    _LIBC.syscall(tgkill, 1, 1, number)
