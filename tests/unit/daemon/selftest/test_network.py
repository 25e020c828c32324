"""Ways out by a socket: how the kernel's lists and errors are judged."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Self

import pytest

from storlet_daemon.selftest import network
from storlet_daemon.selftest.model import NETWORK
from storlet_daemon.selftest.network import TESTS
from tests.unit.daemon.selftest.rows import attempt

ROWS_WITHOUT_NETWORK = {row.name for row in TESTS if row.unless == NETWORK}
DEVICES = "Inter-| Receive\n face |bytes\n    lo: 0 0\n  eth0: 5 5\n  tun0: 0 0\n"


def fake_files(monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    """Replace files of the kernel; a name is the last part of the path, or of its folder."""

    def read(path: str) -> str:
        words = path.split("/")
        return files.get(words[-1], files.get(words[-2], ""))

    monkeypatch.setattr(network, "read", read)


def fake_socket(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    """Replace sockets: opening one, or connecting it, raises ``error``."""

    class Fake:
        def __init__(self, *_arguments: object) -> None:
            if error is not None:
                raise error

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_info: object) -> None:
            pass

        def __getattr__(self, _name: str) -> Callable[..., None]:
            return lambda *_arguments: None

    monkeypatch.setattr(network.socket, "socket", Fake)


@pytest.mark.parametrize(
    ("flags", "result"),
    [
        ({"eth0": "0x1003", "tun0": "0x1002"}, "interface eth0 is up"),
        ({"eth0": "0x1002", "tun0": "0x0"}, ""),
        ({"eth0": "0x0"}, "interface tun0 is up"),  # its flags cannot be read
    ],
)
def test_interfaces_that_are_up_are_reported(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, str], result: str
) -> None:
    fake_files(monkeypatch, dev=DEVICES, **flags)
    assert attempt("network-interfaces") == result


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (OSError(errno.ENETUNREACH, "unreachable"), ""),
        (PermissionError(), ""),
        (ConnectionRefusedError(), "169.254.169.254 answered"),
        (TimeoutError(), "packets go out to 169.254.169.254"),
        (None, "packets go out to 169.254.169.254"),
    ],
)
def test_only_an_unreachable_network_holds(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, result: str
) -> None:
    """An answer that does not come shows that a packet was sent."""
    fake_socket(monkeypatch, error)
    assert attempt("network-metadata") == result


def test_name_servers_other_than_the_sandbox_itself_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network.socket, "getaddrinfo", refuse)
    fake_socket(monkeypatch, None)
    fake_files(monkeypatch, **{"resolv.conf": "# nameserver 10.1.1.1\nnameserver 127.0.0.11\n"})
    assert attempt("network-names") == ""
    fake_files(monkeypatch, **{"resolv.conf": "nameserver 127.0.0.1\nnameserver 10.0.0.2\n"})
    assert attempt("network-names") == "packets go out to 10.0.0.2"


def refuse(*_arguments: object) -> None:
    raise socket.gaierror


def test_abstract_sockets_are_reported_and_those_with_a_path_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = "Num RefCount Protocol Flags Type St Inode Path\n"
    line = "0: 00000002 00000000 00010000 0001 01 {}\n"
    fake_files(monkeypatch, unix=head + line.format("17 /run/x") + line.format("18"))
    assert attempt("network-abstract-sockets") == ""
    fake_files(monkeypatch, unix=head + line.format("19 @/tmp/dbus"))
    assert attempt("network-abstract-sockets") == "socket @/tmp/dbus is in reach"


@pytest.mark.parametrize("name", ["socket-packet", "socket-raw", "socket-vsock", "socket-alg"])
@pytest.mark.parametrize(
    ("error", "result"),
    [
        (PermissionError(errno.EPERM, "no"), ""),
        (OSError(errno.EAFNOSUPPORT, "no"), ""),
        (OSError(errno.EMFILE, "Too many"), "not refused: Too many open files"),
        (None, "the kernel made one"),
    ],
)
def test_a_socket_must_be_refused_for_its_family(
    monkeypatch: pytest.MonkeyPatch, name: str, error: OSError | None, result: str
) -> None:
    fake_socket(monkeypatch, error)
    assert attempt(name) == result


def test_rare_families_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_socket(monkeypatch, OSError(errno.EAFNOSUPPORT, "no"))
    assert attempt("socket-rare") == ""
    fake_socket(monkeypatch, None)
    assert all(name in attempt("socket-rare") for name in ("can", "tipc", "xdp", "bluetooth"))


def test_forged_packets_are_tried_even_where_the_network_is_allowed() -> None:
    assert {"network-out", "network-metadata"} <= ROWS_WITHOUT_NETWORK
    assert ROWS_WITHOUT_NETWORK.isdisjoint({"socket-raw", "socket-packet", "socket-vsock"})
