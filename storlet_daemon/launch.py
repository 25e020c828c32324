"""Fork a worker from the supervisor, with a descriptor table of its own.

The child must not have the control connection, other storlets' listening sockets, or other workers'
channels. Python's objects for them stay alive in the child's memory, in frames that never return,
so no destructor can close a number that has been reused. ``os._exit`` is the only way out.

The child waits before it becomes a worker, so that no code of a tenant runs before the process is
in its control groups. ``release`` sends the message that ends the wait. It is the only message that
the supervisor ever sends over the channel; it is read here, so a worker never sees it.
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
from typing import NoReturn

from storlet_daemon import kernel
from storlet_daemon.confinement import Confinement
from storlet_daemon.protocol.descriptors import close_quietly, sealed_memory
from storlet_daemon.protocol.messages import Resources
from storlet_daemon.protocol.values import dataclass
from storlet_daemon.runtimes.language import CHANNEL, LISTENING, Start

OUTPUT_MAX = 64 * 1024
"""Bytes that a worker may print while it loads; further writes fail and use no memory."""
_SPARE = 16
"""Above every descriptor number that a worker starts with."""
_GO = b"go"
_GO_MAX = 4096
WORKING_DIRECTORY = "/tmp"  # noqa: S108  the sandbox's own scratch space
UMASK = 0o022


@dataclass
class Launched:
    """A new worker process. The caller owns its channel and the memory file of its output."""

    pid: int
    channel: socket.socket
    output: int


BecomeWorker = Callable[[Start], NoReturn]
"""Turns the child into a worker."""


def launch(
    listening: socket.socket,
    name: str,
    limits: Resources,
    become_worker: BecomeWorker,
    confinement: Confinement,
) -> Launched:
    """Fork; after its release the child runs ``become_worker`` with its descriptors in order.

    Raises ``OSError`` if no process can be created. The child inherits ``hide_memory``: other
    storlets of the tenant have the same uid and could otherwise reach its memory and descriptors in
    /proc.
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
            functools.partial(_become, limits, become_worker, confinement),
        )
    theirs.close()
    ours.setblocking(False)
    return Launched(pid, ours, output)


def release(channel: socket.socket, directory: str) -> None:
    """Let a child become a worker, in the control groups ``directory``; ignore a dead child."""
    with contextlib.suppress(OSError):
        channel.send(_GO + directory.encode(), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)


def read_output(output: int) -> str:
    """The output of the worker so far, for the storlet's author."""
    try:
        length = os.lseek(output, 0, os.SEEK_CUR)
        return os.pread(output, min(length, OUTPUT_MAX), 0).decode("utf-8", "replace").strip("\0")
    except OSError:
        return ""


def _become(limits: Resources, become_worker: BecomeWorker, confinement: Confinement) -> NoReturn:
    kernel.limit_process(limits.open_files, limits.scratch_bytes)
    message = os.read(CHANNEL, _GO_MAX)
    if not message.startswith(_GO):
        # The supervisor has exited, or does not need this worker any more.
        os._exit(0)
    channel = confinement.apply(CHANNEL)
    become_worker(Start(message[len(_GO) :].decode(), channel))


def _child(
    sockets: list[int], output: int, name: str, become_worker: Callable[[], NoReturn]
) -> NoReturn:
    """Never returns and never raises: the frames above belong to the supervisor."""
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
    except BaseException:  # noqa: BLE001  it must not reach the supervisor's frames
        _print(traceback.format_exc())
    finally:
        os._exit(1)


def _print(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "replace"))


def _arrange(sockets: list[int], output: int) -> None:
    """0: /dev/null, 1 and 2: the memory file, then the sockets; closes everything else."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    listening, channel = sockets
    wanted = {0: null, 1: output, 2: output, LISTENING: listening, CHANNEL: channel}
    # A source may have the number of a target, so all sources move to higher numbers first.
    sources = {
        target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SPARE) for target, fd in wanted.items()
    }
    for target, source in sources.items():
        os.dup2(source, target, inheritable=target <= 2)
    os.closerange(max(wanted) + 1, max(map(int, os.listdir("/proc/self/fd"))) + 1)
