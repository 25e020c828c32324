"""storlet_daemon/descriptor_filter.py, in forked processes: a filter is for life."""

from __future__ import annotations

import array
import errno
import os
import resource
import socket
from collections.abc import Callable

from storlet_daemon import descriptor_filter

OPEN_FILES = 256
#: Above every descriptor that the test itself has.
CHANNEL = 100


def in_child(body: Callable[[], object]) -> object:
    """The result of ``body``, as text, in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
            os.write(writing, repr(body()).encode())
        except BaseException as error:  # noqa: BLE001  it must not reach the test's frames
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        text = result.read().decode()
    os.waitpid(pid, 0)
    return text


def outcome(call: Callable[[], object]) -> str:
    """``ok`` or the name of the error."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def send_descriptor(sock: socket.socket) -> object:
    rights = array.array("i", [0])
    return sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def confined() -> tuple[socket.socket, int, socket.socket]:
    """The channel to the supervisor, its number, and another socket, after the filter."""
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other, peer = socket.socketpair()
    theirs.detach()
    peer.detach()
    os.dup2(ours.fileno(), CHANNEL)
    number = descriptor_filter.confine(CHANNEL)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, number)
    return channel, number, other


def test_descriptors_can_be_sent_on_the_channel_only() -> None:
    def body() -> object:
        channel, _, other = confined()
        return (
            outcome(lambda: send_descriptor(channel)),
            outcome(lambda: send_descriptor(other)),
            outcome(lambda: other.send(b"plain data")),
        )

    assert in_child(body) == repr(("ok", "EPERM", "ok"))


def test_the_number_of_the_channel_can_be_given_to_no_other_file() -> None:
    def body() -> object:
        channel, number, other = confined()
        channel.close()
        return (
            number,
            resource.getrlimit(resource.RLIMIT_NOFILE),
            outcome(lambda: os.dup2(other.fileno(), number)),
        )

    limit = OPEN_FILES - 1
    assert in_child(body) == repr((limit, (limit, limit), "EBADF"))


def test_children_are_confined_too() -> None:
    def body() -> object:
        _, _, other = confined()
        pid = os.fork()
        if pid == 0:
            os._exit(7 if outcome(lambda: send_descriptor(other)) == "EPERM" else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert in_child(body) == "7"
