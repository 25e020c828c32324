"""One of the object servers cannot run storlets: no request with a storlet fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.probe.conftest import Tenant
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Answer

REQUESTS = 120


@pytest.fixture
def unable(cluster: Cluster, nothing_is_left: None) -> Iterator[None]:
    """object-2 has a separate configuration, in which no sandboxd answers."""
    own = cluster.storlet_conf.with_name("storlet-2.conf")
    missing = cluster.run_dir.parent / "missing"
    lines = cluster.storlet_conf.read_text(encoding="utf-8").splitlines()
    changed = [f"run_dir = {missing}" if line.startswith("run_dir =") else line for line in lines]
    assert changed != lines
    own.write_text("\n".join(changed) + "\n", encoding="utf-8")
    shutil.copymode(cluster.storlet_conf, own)
    shutil.chown(own, cluster.storlet_conf.owner(), cluster.storlet_conf.group())
    try:
        with cluster.configured(
            {"object-server-2.conf:filter:storlets": {"storlet_conf_path": str(own)}}
        ):
            yield
    finally:
        own.unlink()


def test_no_request_fails_and_object_servers_that_can_are_still_used(
    unable: None, tenant: Tenant, background: ThreadPoolExecutor, cluster: Cluster
) -> None:
    paths = [f"data/{unique('o')}" for _ in range(REQUESTS // 2)]
    for path in paths:
        assert tenant.client.put(path, b"some bytes\n").status == 201
    tool = tenant.tool()

    def ask(path: str) -> list[Answer]:
        return [tool.get(path), tool.copy(path, f"{path}-copy")]

    answers = [answer for pair in background.map(ask, paths) for answer in pair]
    failed = [answer for answer in answers if answer.status not in (200, 201) or answer.is_broken]
    assert failed == []
    ran_on = {answer.headers["X-Storlet-Ran-On"] for answer in answers}
    assert ran_on == {"object", "proxy"}
    logged = Path(cluster.process("proxy").log).read_text(encoding="utf-8", errors="replace")
    assert "why=node-unable" in logged
