"""circuit_breaker.py: which nodes the requests of which account pass over, and for how long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlet_middleware.errors import SandboxUnavailable
from storlet_middleware.proxy import circuit_breaker
from storlet_middleware.proxy.circuit_breaker import MAX_NODES, CircuitBreaker
from storlet_middleware.recon import FILE_NAME, ReconCache
from tests.unit.middleware.logger import Logger

DOWN = SandboxUnavailable("Docker is down")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(circuit_breaker, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def logger() -> Logger:
    return Logger()


@pytest.fixture
def nodes(clock: Clock, logger: Logger, tmp_path: Path) -> CircuitBreaker:
    return CircuitBreaker(30, logger, ReconCache(str(tmp_path), logger))


def fail(nodes: CircuitBreaker, node: str = "n1", account: str = "AUTH_a") -> None:
    nodes.record_failure(node, account, DOWN, is_of_whole_node=False)


def test_a_node_that_failed_is_passed_over_for_its_account_only(nodes: CircuitBreaker) -> None:
    fail(nodes)
    assert nodes.avoided("AUTH_a") == {"n1"}
    assert nodes.avoided("AUTH_b") == set()


def test_a_node_without_sandboxd_is_passed_over_for_all(nodes: CircuitBreaker) -> None:
    nodes.record_failure("n1", "AUTH_a", DOWN, is_of_whole_node=True)
    fail(nodes, "n2", "AUTH_b")
    assert nodes.avoided("AUTH_a") == {"n1"}
    assert nodes.avoided("AUTH_b") == {"n1", "n2"}


def test_a_half_open_circuit_lets_one_request_a_second_through(
    nodes: CircuitBreaker, clock: Clock
) -> None:
    fail(nodes)
    clock.now += 29.9
    assert nodes.avoided("AUTH_a") == {"n1"}
    clock.now += 0.2
    assert nodes.avoided("AUTH_a") == set()
    assert [nodes.avoided("AUTH_a") for _ in range(5)] == [{"n1"}] * 5
    clock.now += 1.1
    assert nodes.avoided("AUTH_a") == set()


def test_a_failed_probe_opens_the_circuit_again_and_a_success_closes_it(
    nodes: CircuitBreaker, clock: Clock, logger: Logger
) -> None:
    fail(nodes)
    clock.now += 31
    assert nodes.avoided("AUTH_a") == set()
    fail(nodes)
    clock.now += 29
    assert nodes.avoided("AUTH_a") == {"n1"}
    nodes.record_success("n1", "AUTH_a")
    assert nodes.avoided("AUTH_a") == set()
    assert logger.text.count("object node avoided node=n1 account=AUTH_a code=sandbox.unav") == 1
    assert logger.text.count("object node used again node=n1") == 1
    assert logger.stats.count("storlet.node.avoided") == 1


def test_a_success_of_another_account_does_not_close_an_accounts_circuit(
    nodes: CircuitBreaker,
) -> None:
    fail(nodes)
    nodes.record_success("n1", "AUTH_b")
    assert nodes.avoided("AUTH_a") == {"n1"}


def test_the_circuits_are_bounded(nodes: CircuitBreaker, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each failure writes a file.
    monkeypatch.setattr(circuit_breaker, "MAX_ACCOUNTS", 20)
    for number in range(MAX_NODES + 3):
        fail(nodes, f"n{number}")
    assert len(nodes.avoided("AUTH_a")) == MAX_NODES
    for number in range(20):
        fail(nodes, "n1", f"AUTH_{number}")
    assert nodes.avoided("AUTH_a") == set()
    assert nodes.avoided("AUTH_19") == {"n1"}


def test_zero_seconds_switch_it_off(logger: Logger, tmp_path: Path) -> None:
    nodes = CircuitBreaker(0, logger, ReconCache(str(tmp_path), logger))
    fail(nodes)
    assert nodes.avoided("AUTH_a") == set()
    assert logger.text == ""


def test_recon_has_the_nodes_that_are_avoided(nodes: CircuitBreaker, tmp_path: Path) -> None:
    def published() -> object:
        return json.loads((tmp_path / FILE_NAME).read_text()).get("storlet_nodes_avoided")

    fail(nodes)
    fail(nodes, account="AUTH_b")
    known = {"accounts": 2, "all_accounts": False, "code": "sandbox.unavailable"}
    assert published() == {"n1": known}
    nodes.record_success("n1", "AUTH_a")
    assert published() == {"n1": {**known, "accounts": 1}}
    nodes.record_success("n1", "AUTH_b")
    assert published() is None
