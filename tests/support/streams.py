"""The streams of invocations: pairs of Unix sockets, one end for a server and one for a worker.

Swift's processes make them, so the host's kernel tables list both ends.  Sockets that a storlet
makes belong to the network namespace of its sandbox and are not listed.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST_DUMP: Final = 0x301
_SHOW_PEER: Final = 4
_PEER_ATTRIBUTE: Final = 2
_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
_ENTRY: Final = struct.Struct("=BBBBIII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ALL: Final = 0xFFFFFFFF
_STREAM: Final = "0001"


def listed() -> set[str]:
    """Links in ``/proc/<pid>/fd`` of all stream sockets of the host."""
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return {f"socket:[{words[6]}]" for line in lines if (words := line.split())[4] == _STREAM}


def peers() -> dict[str, str]:
    """By the link of each connected Unix socket of the host: the link of its peer."""
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW_PEER, _ALL, _ALL)
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
    found: dict[str, str] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.send(header + request)
        while True:
            data = netlink.recv(1 << 18)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind != _SOCK_DIAG_BY_FAMILY:
                    assert kind == _DONE, "the kernel cannot list sockets"
                    return found
                _add(found, data[_HEADER.size : length])
                data = data[(length + 3) & ~3 :]


def _add(found: dict[str, str], entry: bytes) -> None:
    own = _ENTRY.unpack_from(entry)[4]
    attributes = entry[_ENTRY.size :]
    while attributes:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _PEER_ATTRIBUTE:
            (peer,) = struct.unpack_from("=I", attributes, _ATTRIBUTE.size)
            found[f"socket:[{own}]"] = f"socket:[{peer}]"
        attributes = attributes[(length + 3) & ~3 :]
