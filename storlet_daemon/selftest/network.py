"""Every way out by a socket."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

from storlet_daemon.selftest.model import NETWORK, Facts, SelfTest, listed, read

METADATA = "169.254.169.254"
"""The address at which clouds serve the machine's secrets."""
ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses reserved for documentation; a host with a route out would send to them."""
_SECONDS = 0.3
_UP = 1
_FAMILIES = {
    "key": 15,
    "rds": 21,
    "can": 29,
    "tipc": 30,
    "bluetooth": 31,
    "xdp": 44,
    "qipcrtr": 42,
    "ib": 27,
}
_REFUSALS = (
    errno.EPERM,
    errno.EACCES,
    errno.EAFNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ESOCKTNOSUPPORT,
    errno.ENOSYS,
)


def _interfaces(_facts: Facts) -> str:
    names = [
        line.partition(":")[0].strip() for line in read("/proc/net/dev").splitlines() if ":" in line
    ]
    return listed([f"interface {name} is up" for name in names if name != "lo" and _is_up(name)])


def _is_up(name: str) -> bool:
    flags = read(f"/sys/class/net/{name}/flags").strip()
    return not flags or bool(int(flags, 16) & _UP)


def _connect(address: str, port: int, kind: socket.SocketKind) -> str:
    """ "" if no packet leaves; else what happened."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, kind) as probe:
            probe.settimeout(_SECONDS)
            probe.connect((address, port))
            probe.send(b"\0")
    except TimeoutError:
        return f"packets go out to {address}"
    except ConnectionRefusedError:
        return f"{address} answered"
    except OSError:
        return ""
    return f"packets go out to {address}"


def _metadata(_facts: Facts) -> str:
    return _connect(METADATA, 80, socket.SOCK_STREAM) or _connect(METADATA, 80, socket.SOCK_DGRAM)


def _elsewhere(_facts: Facts) -> str:
    return listed(
        [fault for address in ELSEWHERE if (fault := _connect(address, 443, socket.SOCK_DGRAM))]
    )


def _names(_facts: Facts) -> str:
    lines = [line.split() for line in read("/etc/resolv.conf").splitlines()]
    for words in lines:
        if words[:1] == ["nameserver"] and len(words) > 1 and not words[1].startswith("127."):
            fault = _connect(words[1].partition("%")[0], 53, socket.SOCK_DGRAM)
            if fault:
                return fault
    try:
        found = socket.getaddrinfo("example.org", 80)
    except OSError:
        return ""
    return f"example.org has an address: {found[0][4][0]}"


def _abstract(_facts: Facts) -> str:
    paths = [
        line.split()[7] for line in read("/proc/net/unix").splitlines()[1:] if len(line.split()) > 7
    ]
    return listed([f"socket {path} is in reach" for path in paths if path.startswith("@")])


def _family(number: int, kind: int) -> Callable[[Facts], str]:
    def attempt(_facts: Facts) -> str:
        try:
            socket.socket(number, kind).close()
        except OSError as error:
            return (
                "" if error.errno in _REFUSALS else f"not refused: {os.strerror(error.errno or 0)}"
            )
        return "the kernel made one"

    return attempt


def _rare_families(facts: Facts) -> str:
    kinds = (socket.SOCK_RAW, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
    found = [
        name
        for name, number in _FAMILIES.items()
        if any(not _is_refused(number, kind) for kind in kinds)
    ]
    return f"the kernel made one of {listed(found, 8)}" if found else ""


def _is_refused(family: int, kind: int) -> bool:
    try:
        socket.socket(family, kind).close()
    except OSError:
        return True
    return False


_LOCAL = "the host's own interfaces and services"
_KERNEL = "parts of the kernel that no storlet needs"

TESTS = (
    SelfTest("network-interfaces", _LOCAL, _interfaces, unless=NETWORK),
    SelfTest(
        "network-metadata", "the secrets that a cloud gives its machines", _metadata, unless=NETWORK
    ),
    SelfTest("network-out", "carrying data away", _elsewhere, unless=NETWORK),
    SelfTest("network-names", "carrying data away in DNS queries", _names, unless=NETWORK),
    SelfTest(
        "network-abstract-sockets", "services of the host that listen without a path", _abstract
    ),
    SelfTest(
        "socket-netlink",
        "the host's network set-up; " + _KERNEL,
        _family(16, socket.SOCK_RAW),
        unless=NETWORK,
    ),
    SelfTest("socket-packet", "other people's packets", _family(17, socket.SOCK_RAW)),
    SelfTest("socket-raw", "forged packets", _family(int(socket.AF_INET), socket.SOCK_RAW)),
    SelfTest("socket-vsock", "the machine below a virtual one", _family(40, socket.SOCK_STREAM)),
    SelfTest("socket-alg", _KERNEL, _family(38, socket.SOCK_SEQPACKET)),
    SelfTest("socket-rare", _KERNEL, _rare_families),
)
