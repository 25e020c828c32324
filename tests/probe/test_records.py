"""Records of runs while their container is deleted, is full, or their proxy is killed: no request
fails, and no more than five seconds of records are lost."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.proxies import OtherProxy, other_proxy
from tests.support.storlets import Tool
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

#: A crash loses the records of its last seconds only.
_SECONDS: Final = 5
_WISH: Final = {"X-Account-Meta-Storlet-Records": "all"}


@pytest.fixture(scope="module")
def proxy(cluster: Cluster, nothing_is_left: None) -> Iterator[OtherProxy]:
    """A proxy server of this module; the last test kills it."""
    with other_proxy(cluster, {}) as one:
        yield one


@pytest.fixture
def recording(new_tenant: Callable[[], Tenant], proxy: OtherProxy) -> Tenant:
    """An account with records of all runs; its requests go to ``proxy``."""
    made = new_tenant()
    there = Tenant(**{**vars(made), "client": proxy.client(made.client)})
    assert there.client.post("", _WISH).status == 204
    return there


def records(client: Client) -> list[dict[str, Any]]:
    """All records of the account."""
    found: list[dict[str, Any]] = []
    query = "storlet-runs&limit=1000"
    while True:
        answer = client.get("", query=query)
        assert answer.status == 200, answer
        found += json.loads(answer.body)
        marker = answer.headers.get("X-Storlet-Runs-Next")
        if not marker:
            return found
        query = f"storlet-runs&limit=1000&marker={marker}"


def ids(client: Client) -> set[str]:
    return {record["id"] for record in records(client)}


def log_of(proxy: OtherProxy) -> str:
    return Path(proxy.log).read_text(encoding="utf-8", errors="replace")


#: Swift's object updater, which no test cluster runs all the time.
_UPDATER: Final = (
    "import os, sys; from swift.common import utils; utils.set_swift_dir(os.path.dirname(sys.argv[1]));"
    " from swift.obj.updater import main; main()"
)


def update_containers(cluster: Cluster) -> None:
    """List objects that were stored while container servers were down."""
    for server in ("object-1", "object-2"):
        config = str(cluster.process(server).config)
        command = [cluster.venv / "bin/python3", "-W", "ignore", "-c", _UPDATER, config, "once"]
        subprocess.run(command, cwd="/", capture_output=True, check=True, timeout=60)


def run_once(tool: Tool, path: str) -> str:
    """The id of a run, which must succeed."""
    answer = tool.get(path)
    assert answer.status == 200, answer
    return str(answer.headers["X-Storlet-Invocation"])


def test_a_deleted_container_is_made_again(recording: Tenant) -> None:
    client, tool = recording.client, recording.tool("object")
    first = run_once(tool, recording.path)
    wait_for(lambda: first in ids(client), _SECONDS + 2, "the first record")
    for entry in client.listing("storletlog"):
        assert client.delete(f"storletlog/{entry['name']}").status == 204
    assert client.delete("storletlog").status == 204
    assert records(client) == []
    second = run_once(tool, recording.path)
    wait_for(lambda: ids(client) == {second}, _SECONDS + 2, "the record after the deletion")


def test_a_full_container_fails_no_request_and_is_reported(
    recording: Tenant, proxy: OtherProxy
) -> None:
    client, tool = recording.client, recording.tool("object")
    quota = "X-Container-Meta-Quota-Bytes"
    assert client.put("storletlog", b"", {quota: "1"}).status in (201, 202)
    lost = {run_once(tool, recording.path) for _ in range(3)}
    wait_for(lambda: "records lost" in log_of(proxy), _SECONDS + 2, "the log line")
    time.sleep(2)  # for the other records: the line is of the first loss, once a minute
    (line,) = [line for line in log_of(proxy).splitlines() if "records lost" in line]
    assert f"account={recording.account} why=Swift answered 413" in line
    assert client.post("storletlog", {quota: ""}).status == 204
    kept = run_once(tool, recording.path)
    wait_for(lambda: kept in ids(client), _SECONDS + 2, "the record after the quota")
    assert not lost & ids(client)


def test_an_account_without_container_servers_gets_its_records_when_they_are_back(
    recording: Tenant, cluster: Cluster
) -> None:
    client, tool = recording.client, recording.tool("object")
    first = run_once(tool, recording.path)
    wait_for(lambda: first in ids(client), _SECONDS + 2, "the first record")
    names = [item["name"] for item in cluster.description["processes"]]
    servers = [name for name in names if name.startswith("container-")]
    for name in servers:
        cluster.stop(name)
    try:
        second = run_once(tool, recording.path)
        time.sleep(1)
    finally:
        for name in servers:
            cluster.start(name)

    def is_listed() -> bool:
        update_containers(cluster)
        return second in ids(client)

    wait_for(is_listed, 4 * _SECONDS, "the record of the outage")


def test_a_killed_proxy_loses_five_seconds_of_records_at_most(
    recording: Tenant, proxy: OtherProxy, admin: Client, background: ThreadPoolExecutor
) -> None:
    tool, ended = recording.tool("object"), {}
    stop = time.monotonic() + 2 * _SECONDS
    while time.monotonic() < stop:
        ended[run_once(tool, recording.path)] = time.monotonic()
        time.sleep(0.05)
    killed = time.monotonic()
    proxy.kill()
    kept = ids(admin.on(recording.account))
    lost = [moment for run, moment in ended.items() if run not in kept]
    assert all(killed - moment < _SECONDS for moment in lost), max(
        killed - moment for moment in lost
    )
    assert len(kept) > len(ended) / 3
    assert kept <= set(ended)
