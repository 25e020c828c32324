"""The relay delays every byte, changes none, ends what has ended, and does not outlive its
owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.bench.relay import relay
from tests.support.cluster import CHECKOUT

SECONDS = 0.05


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


@pytest.fixture
def ends(target: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection through a relay: the client's end and the server's."""
    with (
        relay(target.getsockname(), SECONDS) as address,
        socket.create_connection(address, 10) as client,
    ):
        server, _ = target.accept()
        with server:
            server.settimeout(10)
            yield client, server


def received(end: socket.socket) -> bytes:
    """Everything until the end."""
    return b"".join(iter(lambda: end.recv(1 << 16), b""))


def test_an_answer_comes_back_after_the_time_of_both_directions(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    client, server = ends
    for _ in range(3):
        began = time.monotonic()
        client.sendall(b"question")
        assert server.recv(100) == b"question"
        arrived = time.monotonic()
        assert arrived - began >= SECONDS
        server.sendall(b"answer")
        assert client.recv(100) == b"answer"
        assert time.monotonic() - arrived >= SECONDS


def test_many_bytes_are_the_same_and_take_the_time_once(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    client, server = ends
    data = os.urandom(1 << 20) * 32
    # A piece has at most 512 KiB: one after another they would take three seconds.
    began = time.monotonic()
    sending = threading.Thread(
        target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR))
    )
    sending.start()
    assert received(server) == data
    sending.join()
    assert time.monotonic() - began < 2


def test_the_other_direction_continues_after_an_end(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    client, server = ends
    client.sendall(b"all of it")
    client.shutdown(socket.SHUT_WR)
    assert received(server) == b"all of it"
    server.sendall(b"thanks")
    server.close()
    assert received(client) == b"thanks"


@pytest.mark.parametrize("leaves", ["client", "server"])
def test_closing_one_side_closes_the_other(
    ends: tuple[socket.socket, socket.socket], leaves: str
) -> None:
    client, server = ends
    gone, left = (client, server) if leaves == "client" else (server, client)
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    gone.close()
    assert received(left) == b""


def test_a_client_without_a_server_is_disconnected(target: socket.socket) -> None:
    address = target.getsockname()
    target.close()
    with relay(address, SECONDS) as listening, socket.create_connection(listening, 10) as client:
        assert received(client) == b""


def test_the_relay_ends_with_its_parent() -> None:
    code = (
        "import time\nfrom tests.bench.relay import relay\n"
        "with relay(('127.0.0.1', 9), 0.05) as address: print(address[1], flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=CHECKOUT, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        socket.create_connection(("127.0.0.1", port), 10).close()
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    pytest.fail("the relay is still there")
