"""A client behind a slow link: a network namespace, a pair of virtual devices, the kernel's token
buckets.

Only the client's socket is in the namespace: one thread of this process enters it and opens the
socket, which stays there.  So the client's code and its CPU are the same as elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tests.bench.http import TIMEOUT_SECONDS, Connection
from tests.bench.site import Site

#: The rate of the link of all rows, in Mbit/s.
MBIT: Final = 1000
_CLONE_NEWNET: Final = 0x40000000
#: For tests of networks (RFC 2544).
_OUR_ADDRESS, _THEIR_ADDRESS = "198.18.209.1", "198.18.209.2"


class NoLink(Exception):
    """This machine cannot have such a link; the text is the reason."""


class Link:
    """Use with ``with``; ``mbit`` is the rate in both directions."""

    def __init__(self, mbit: int) -> None:
        self._mbit = mbit
        name = f"{os.getpid():x}"
        self._namespace, self._ours, self._theirs = _names(name)

    def __enter__(self) -> Self:
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove()
            raise NoLink(f"no network namespace with a limited link: {error}") from error
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._remove()

    def _make(self) -> None:
        _remove_orphans()
        inside = ("netns", "exec", self._namespace, "ip")
        _ip("netns", "add", self._namespace)
        _ip(
            "link",
            "add",
            self._ours,
            "type",
            "veth",
            "peer",
            "name",
            self._theirs,
            "netns",
            self._namespace,
        )
        _ip("addr", "add", f"{_OUR_ADDRESS}/30", "dev", self._ours)
        _ip(*inside, "addr", "add", f"{_THEIR_ADDRESS}/30", "dev", self._theirs)
        _ip("link", "set", self._ours, "up")
        _ip(*inside, "link", "set", self._theirs, "up")
        limit = ("root", "tbf", "rate", f"{self._mbit}mbit", "burst", "256k", "latency", "50ms")
        _run("tc", "qdisc", "add", "dev", self._ours, *limit)
        _ip("netns", "exec", self._namespace, "tc", "qdisc", "add", "dev", self._theirs, *limit)

    def _remove(self) -> None:
        _delete(self._namespace, self._ours)

    def connect(self, port: int) -> Connection:
        """A connection over the link to ``port`` of this machine, which must listen on every
        address."""
        return Connection(lambda: self._open(port))

    def _open(self, port: int) -> socket.socket:
        with (
            Path("/proc/thread-self/ns/net").open("rb") as home,
            Path("/run/netns", self._namespace).open("rb") as there,
        ):
            _enter(there.fileno())
            try:
                made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            finally:
                _enter(home.fileno())
        made.settimeout(TIMEOUT_SECONDS)
        made.connect((_OUR_ADDRESS, port))
        return made


@contextmanager
def connected(site: Site) -> Iterator[Connection]:
    """A connection to the proxy over a link of :data:`MBIT`.

    :raises NoLink: this machine cannot have one.
    """
    with opened(site) as connect:
        yield connect()


@contextmanager
def opened(site: Site) -> Iterator[Callable[[], Connection]]:
    """A function that opens a connection to the proxy; all of them share a link of :data:`MBIT`.

    :raises NoLink: this machine cannot have one.
    """
    site.configure({"proxy-server.conf:DEFAULT": {"bind_ip": "0.0.0.0"}})
    try:
        with Link(MBIT) as link:
            port = site.main.address[1]
            yield lambda: link.connect(port)
    finally:
        site.configure({})


def _names(process: str) -> tuple[str, str, str]:
    """The namespace and both ends of the link of a process, by its number in hexadecimal."""
    return f"bench-{process}", f"bo-{process}", f"bt-{process}"


def _remove_orphans() -> None:
    """Remove the links of processes that were killed: they have the address of the new one, and its
    packets would go there."""
    for interface in Path("/sys/class/net").glob("bo-*"):
        process = interface.name.removeprefix("bo-")
        if not Path(f"/proc/{int(process, 16)}").exists():
            namespace, ours, _ = _names(process)
            _delete(namespace, ours)


def _delete(namespace: str, interface: str) -> None:
    for command in (("link", "del", interface), ("netns", "del", namespace)):
        subprocess.run(["ip", *command], capture_output=True, check=False)


def _enter(namespace: int) -> None:
    """Move only this thread into a network namespace (``os.setns`` needs Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    subprocess.run(words, capture_output=True, check=True)
