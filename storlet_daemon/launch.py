"""Fork a worker out of the supervisor, with a descriptor table of its own and nothing of its parent's.

What the child must not have: the control connection, other storlets' listening sockets, other workers' channels. Python's
objects for them live on in the child's memory, in frames that never return, so that none of their destructors can close a
number that meanwhile means something else; ``os._exit`` is the only way out.

The child waits before it becomes a worker, so that no code of a tenant runs before the process is in its control groups.
The one message that lets it go (``let_go``) is the only one that the supervisor ever sends over the channel; it is read here,
and a worker never sees it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from storlet_daemon import kernel
from storlet_daemon.protocol.descriptors import close_quietly, sealed_memory
from storlet_daemon.protocol.messages import Resources
from storlet_daemon.runtimes import CHANNEL, LISTENING

OUTPUT_MAX = 64 * 1024
"""Bytes of what a worker may print while it loads; more is an error to it, and costs no memory."""
_SPARE = 16
"""Above every number that a worker's table starts with."""
_GO = b"go"
_GO_MAX = 4096
WORKING_DIRECTORY = "/tmp"  # noqa: S108  the sandbox's own scratch space
UMASK = 0o022


@dataclass
class Launched:
    """A new worker process: its channel and the memory file of what it prints belong to the caller."""

    pid: int
    channel: socket.socket
    output: int


BecomeWorker = Callable[[str], NoReturn]
"""Turns the child into a worker; is told the directory of its control groups, empty when it has none of its own."""


def launch(
    listening: socket.socket, name: str, limits: Resources, become_worker: BecomeWorker
) -> Launched:
    """Fork; once let go, the child runs ``become_worker`` with descriptors in order.

    ``OSError`` when there is no process to be had. The child inherits ``hide_memory``: other storlets of the tenant have the
    same uid, and could reach its memory and descriptors in /proc otherwise.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    output = -1
    try:
        output = sealed_memory("storlet-output", OUTPUT_MAX)
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        close_quietly(output)
        raise
    if pid == 0:
        _child(
            [listening.fileno(), theirs.fileno()],
            output,
            name,
            functools.partial(_become, limits, become_worker),
        )
    theirs.close()
    ours.setblocking(False)
    return Launched(pid, ours, output)


def let_go(channel: socket.socket, directory: str) -> None:
    """Tell a child that it may become a worker now, in the control groups ``directory``. One that is dead hears nothing."""
    with contextlib.suppress(OSError):
        channel.send(_GO + directory.encode(), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)


def read_output(output: int) -> str:
    """What the worker has printed so far, for its author to read."""
    try:
        length = os.lseek(output, 0, os.SEEK_CUR)
        return os.pread(output, min(length, OUTPUT_MAX), 0).decode("utf-8", "replace").strip("\0")
    except OSError:
        return ""


def _become(limits: Resources, become_worker: BecomeWorker) -> NoReturn:
    kernel.limit_process(limits.open_files, limits.scratch_bytes)
    message = os.read(CHANNEL, _GO_MAX)
    if not message.startswith(_GO):
        # The supervisor is gone, or does not want this worker any more.
        os._exit(0)
    become_worker(message[len(_GO) :].decode())


def _child(
    sockets: list[int], output: int, name: str, become_worker: Callable[[], NoReturn]
) -> NoReturn:
    """Never returns and never raises, whatever happens: above are the supervisor's frames."""
    try:
        os.setsid()
        kernel.unblock_all()
        kernel.adopt_orphans()
        kernel.set_name(name)
        _arrange(sockets, output)
        os.umask(UMASK)
        os.chdir(WORKING_DIRECTORY)
        gc.freeze()
        become_worker()
    except BaseException:  # noqa: BLE001  it must not get to the supervisor's frames
        _print(traceback.format_exc())
    finally:
        os._exit(1)


def _print(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "replace"))


def _arrange(sockets: list[int], output: int) -> None:
    """0: /dev/null, 1 and 2: the memory file, then the sockets; everything else is closed."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    listening, channel = sockets
    wanted = {0: null, 1: output, 2: output, LISTENING: listening, CHANNEL: channel}
    # The sources may have the numbers of the targets, so all move out of the way first.
    sources = {
        target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SPARE) for target, fd in wanted.items()
    }
    for target, source in sources.items():
        os.dup2(source, target, inheritable=target <= 2)
    os.closerange(max(wanted) + 1, max(map(int, os.listdir("/proc/self/fd"))) + 1)
