"""Sockets of the host, from the kernel's table for ``ss``: sock_diag(7).

The files ``/proc/net/tcp`` and ``/proc/net/unix`` have a line of text for each socket. The table
leaves out the TCP connections that wait for late packets, which are nearly all of a busy machine.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST_DUMP: Final = 0x301
_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
_ALL: Final = 0xFFFFFFFF

_SHOW_PEER: Final = 4
_PEER_ATTRIBUTE: Final = 2
_UNIX_ENTRY: Final = struct.Struct("=BBBBIII")
_ATTRIBUTE: Final = struct.Struct("=HH")

#: The state TIME_WAIT: such a connection has no socket.
_TIME_WAIT: Final = 6
#: Of a socket: ports and addresses of both ends, and the inode.
_TCP_ENTRY: Final = struct.Struct("=BBBB2s2s16s16s12s16sI")
_TCP_ID_BYTES: Final = 48


def peers() -> dict[str, str]:
    """By the link of each connected Unix socket of the host: the link of its peer."""
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW_PEER, _ALL, _ALL)
    found: dict[str, str] = {}
    for entry in _dump(request):
        own = _UNIX_ENTRY.unpack_from(entry)[4]
        attributes = entry[_UNIX_ENTRY.size :]
        while attributes:
            length, kind = _ATTRIBUTE.unpack_from(attributes)
            if kind == _PEER_ATTRIBUTE:
                (peer,) = struct.unpack_from("=I", attributes, _ATTRIBUTE.size)
                found[f"socket:[{own}]"] = f"socket:[{peer}]"
            attributes = attributes[(length + 3) & ~3 :]
    return found


def tcp_sockets() -> Iterator[tuple[str, tuple[int, bytes], tuple[int, bytes]]]:
    """Link, own end and other end of each TCP socket of the host over IPv4.

    An end is a port and an address; the other end of a listening socket has port 0.
    """
    states = _ALL & ~(1 << _TIME_WAIT)
    request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, states)
    for entry in _dump(request + bytes(_TCP_ID_BYTES)):
        _, _, _, _, own, other, here, there, _, _, inode = _TCP_ENTRY.unpack_from(entry)
        yield (
            f"socket:[{inode}]",
            (int.from_bytes(own, "big"), here[:4]),
            (int.from_bytes(other, "big"), there[:4]),
        )


def _dump(request: bytes) -> Iterator[bytes]:
    """The entries of the kernel's answer to a request."""
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.send(header + request)
        while True:
            data, start = netlink.recv(1 << 18), 0
            while start < len(data):
                length, kind, *_ = _HEADER.unpack_from(data, start)
                if kind != _SOCK_DIAG_BY_FAMILY:
                    assert kind == _DONE, "the kernel cannot list sockets"
                    return
                yield data[start + _HEADER.size : start + length]
                start += (length + 3) & ~3
