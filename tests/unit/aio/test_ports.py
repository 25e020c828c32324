"""The ports of a cluster's servers: free, different, and kept."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from storlet_middleware.aio import home, ports
from storlet_middleware.aio.progress import AioError


def environment(path: Path, **more: str) -> dict[str, str]:
    return {"STORLETS_HOME": str(path), **more}


def test_ports_are_different_and_outside_the_ephemeral_range(tmp_path: Path) -> None:
    chosen = home.open_home(environment(tmp_path, STORLETS_PORT="0")).ports
    assert set(chosen) == set(ports.SERVERS)
    assert len(set(chosen.values())) == len(chosen)
    assert all(port in ports.FREE_PORTS for port in chosen.values())


def test_storlets_port_moves_the_proxy_only(tmp_path: Path) -> None:
    before = home.open_home(environment(tmp_path)).ports
    after = home.open_home(environment(tmp_path, STORLETS_PORT="9191")).ports
    assert before["proxy"] == ports.DEFAULT_PORT
    assert after == {**before, "proxy": 9191}


@pytest.mark.parametrize("port", ["eighty", "-1", "65536", "80 80"])
def test_an_invalid_port_is_refused(tmp_path: Path, port: str) -> None:
    with pytest.raises(AioError, match="STORLETS_PORT"):
        home.open_home(environment(tmp_path, STORLETS_PORT=port))


def test_settled_ports_stay_because_the_rings_contain_them() -> None:
    settled = ports.settle({}, "0")
    assert ports.settle(settled, "") == ports.settle(settled, "0") == settled


def test_port_0_replaces_the_default_port_by_a_free_one() -> None:
    settled = ports.settle({"proxy": ports.DEFAULT_PORT}, "0")
    assert settled["proxy"] in ports.FREE_PORTS


def test_a_port_is_free_until_a_server_listens_there() -> None:
    port = ports.free_port(taken=set())
    assert ports.port_is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not ports.port_is_free(port)


def test_without_a_free_port_the_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "FREE_PORTS", range(21000, 21002))
    with pytest.raises(AioError, match="between 21000 and 21001"):
        ports.free_port(taken={21000, 21001})
