"""The metrics of sandboxd, as a StatsD server receives them over UDP."""

from __future__ import annotations

import os
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from storlet_middleware.sandboxd.pool import code_use, eviction
from storlet_middleware.sandboxd.self_test.gate import Gate
from storlet_middleware.sandboxd.statsd import StatsdClient
from tests.unit.sandboxd.doubles import FakeDocker, FakeNode, loaded, refused, until


class Server:
    """A UDP socket on loopback that counts the packets by metric."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.packets: list[str] = []

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def counts(self) -> Counter[str]:
        """How often each metric was received, by its name without the prefix."""
        try:
            while True:
                self.packets.append(self.socket.recv(1000).decode())
        except BlockingIOError:
            names = (packet.partition(":")[0] for packet in self.packets)
            return Counter(name.removeprefix("site.storlet-sandboxd.storlet.") for name in names)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.socket.close()


@pytest.fixture
def make_node(server: Server) -> Iterator[Callable[..., FakeNode]]:
    """Makes started nodes that send their metrics to ``server``."""
    client = StatsdClient("127.0.0.1", server.port, "site")
    nodes: list[FakeNode] = []

    def make(
        docker: FakeDocker | None = None, gate: type[Gate] | None = None, **options: object
    ) -> FakeNode:
        node = FakeNode(docker or FakeDocker(), **options)
        node.stats = client
        node.gate = gate or node.gate
        nodes.append(node)
        return node.start()

    yield make
    for node in nodes:
        node.remove()
    client.close()


def test_a_packet_has_prefix_server_name_value_and_type(server: Server) -> None:
    client = StatsdClient("127.0.0.1", server.port, "site.")
    client.increment("storlet.sandbox.starts")
    client.update_stats("storlet.sandbox.lost", 3)
    client.timing("storlet.sandbox.start.timing", 12.34567)
    client.close()
    server.counts()
    assert server.packets == [
        "site.storlet-sandboxd.storlet.sandbox.starts:1|c",
        "site.storlet-sandboxd.storlet.sandbox.lost:3|c",
        "site.storlet-sandboxd.storlet.sandbox.start.timing:12.3457|ms",
    ]


def test_metrics_without_a_server_are_dropped(server: Server) -> None:
    port = server.port
    server.socket.close()
    client = StatsdClient("127.0.0.1", port)
    for _ in range(3):  # the second send reports the refused first one
        client.increment("storlet.sandbox.starts")
    client.close()


def test_starts_losses_and_restarts_are_counted(
    make_node: Callable[..., FakeNode], server: Server
) -> None:
    node = make_node()
    loaded(node.load())
    assert server.counts() == {"sandbox.starts": 1, "sandbox.start.timing": 1}
    (timing,) = (packet for packet in server.packets if "timing" in packet)
    assert 0 < float(re.findall(r":(.*)\|ms", timing)[0]) < 5000
    node.docker.kill()
    until(lambda: server.counts()["sandbox.lost"] == 1)
    loaded(node.load())
    assert server.counts()["sandbox.starts"] == 2
    assert server.counts()["sandbox.restarts"] == 1


def test_idle_stops_are_counted(make_node: Callable[..., FakeNode], server: Server) -> None:
    node = make_node(idle_stop_seconds=1.5)
    loaded(node.load())
    until(lambda: not node.docker.containers)
    assert server.counts()["sandbox.idle_stops"] == 1
    assert server.counts()["sandbox.evictions"] == 0


def test_evictions_are_counted(
    make_node: Callable[..., FakeNode], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.1)
    monkeypatch.setattr(eviction, "AHEAD_SECONDS", 60.0)
    node = make_node(max_per_node=1)
    loaded(node.load("AUTH_a"))
    time.sleep(0.2)
    loaded(node.load("AUTH_b"))
    assert server.counts()["sandbox.evictions"] == 1
    assert server.counts()["sandbox.idle_stops"] == 0


def test_assignments_of_pre_warmed_sandboxes_are_counted(
    make_node: Callable[..., FakeNode], server: Server
) -> None:
    node = make_node(prewarmed=1)
    until(lambda: [sandbox.state for sandbox in node.status().sandboxes] == ["spare"])
    assert server.counts()["sandbox.assignments"] == 0
    loaded(node.load())
    assert server.counts()["sandbox.assignments"] == 1
    assert server.counts()["sandbox.starts"] == 1


def test_evictions_of_code_are_counted(
    make_node: Callable[..., FakeNode], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_use, "EVICT_AFTER_SECONDS", 0.05)
    node = make_node(code_cache_bytes=8192)
    old = node.put_code("AUTH_b", "3" * 64) / ("3" * 64)
    until(lambda: [sandbox.state for sandbox in node.status().sandboxes] == ["running"])
    (old / "file").write_bytes(bytes(8192))
    os.utime(old, (0, 0))
    loaded(node.load("AUTH_a"))
    until(lambda: server.counts()["cache.evictions"] == 1)
    assert not old.exists()


def test_failed_starts_are_counted(make_node: Callable[..., FakeNode], server: Server) -> None:
    refused(make_node(FakeDocker(behaviour="exits")).load())
    assert server.counts() == {"sandbox.failures": server.counts()["sandbox.failures"]}
    assert server.counts()["sandbox.failures"] >= 1


def test_failed_self_tests_are_counted(make_node: Callable[..., FakeNode], server: Server) -> None:
    make_node(FakeDocker(behaviour="leaks"), Gate)
    until(lambda: server.counts()["sandbox.self_test_failures"] == 2, 15)
