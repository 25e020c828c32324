"""The ports of a cluster's servers on 127.0.0.1."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from typing import Final

from .progress import AioError

DEFAULT_PORT: Final = 8080
#: Below the kernel's ephemeral range (from 32768): while a server is down, an outgoing connection
#: must not take its port.
FREE_PORTS: Final = range(21000, 32000)
SERVERS: Final = ("proxy", "object-1", "object-2", "container-1", "account-1", "memcached")
_ATTEMPTS: Final = 1000


def settle(ports: Mapping[str, int], wanted: str) -> dict[str, int]:
    """The port of each server.

    Ports stay as they were, because the rings contain them.  ``wanted`` is ``STORLETS_PORT``: it
    moves the proxy; 0 means any free port.
    """
    if wanted and (not wanted.isdigit() or int(wanted) > 65535):
        raise AioError(f"STORLETS_PORT={wanted!r}: want a port number, or 0 for a free one")
    settled = dict(ports)
    if wanted == "0":
        if settled.get("proxy") == DEFAULT_PORT:
            del settled["proxy"]
    elif wanted:
        settled["proxy"] = int(wanted)
    else:
        settled.setdefault("proxy", DEFAULT_PORT)
    for name in SERVERS:
        if name not in settled:
            settled[name] = free_port(taken=set(settled.values()))
    return settled


def free_port(taken: set[int]) -> int:
    """A random free port that is not in ``taken``."""
    for _ in range(_ATTEMPTS):
        port = secrets.choice(FREE_PORTS)
        if port not in taken and port_is_free(port):
            return port
    raise AioError(
        f"no free port on 127.0.0.1 between {FREE_PORTS.start} and {FREE_PORTS.stop - 1}"
    )


def port_is_free(port: int) -> bool:
    """Whether a server could listen at a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
