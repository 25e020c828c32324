"""Log lines of running storlets, as clients that follow them see them."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.proxies import other_proxy
from tests.support.storlets import PLACEMENTS, Tool
from tests.support.waiting import retry_until

_READ = "X-Account-Access-Control"
_QUERY = "storlet-runs&follow&lines"
#: A run of this time is cancelled by its test long before.
_LONG = {"do": "slow", "pause": "60"}
#: Heartbeat, write and poll, on a busy machine.
_SECONDS = 25


def begin(tool: Tool, path: str, **parameters: str) -> tuple[HTTPConnection, HTTPResponse]:
    """Begin a run; the caller closes the connection, which cancels it."""
    query = "&".join(f"{key}={value}" for key, value in parameters.items())
    return tool.client.open("GET", path, tool.headers(), query=query)


def rows_until(response: HTTPResponse, ids: set[str]) -> list[dict[str, Any]]:
    """The rows of a stream until there is one with lines of each run."""
    rows: list[dict[str, Any]] = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and not ids <= {row.get("id") for row in rows if "lines" in row}:
        line = response.readline().strip()
        rows += [json.loads(line)] if line else []
    return rows


def test_lines_of_runs_come_before_their_end_through_another_proxy(
    owner: Client, cluster: Cluster, any_tool: Tool, plain: str
) -> None:
    """At both placements, of a storlet that floods its log and then works on."""
    with other_proxy(cluster) as proxy:
        there = proxy.client(owner)
        query = f"{_QUERY}&storlet={any_tool.storlet}"
        stream, rows_of = there.open("GET", "", query=query, timeout=_SECONDS)
        connections = [stream]
        try:
            assert (rows_of.status, rows_of.readline()) == (200, b"\n")
            runs = {}
            for placement in PLACEMENTS:
                tool = Tool(owner, any_tool.storlet, placement)
                connection, answer = begin(tool, plain, log="word" * 20, times="1000", **_LONG)
                connections.append(connection)
                assert (answer.status, answer.getheader("X-Storlet-Ran-On")) == (200, placement)
                runs[str(answer.getheader("X-Storlet-Invocation"))] = placement
            rows = rows_until(rows_of, set(runs))
        finally:
            for connection in connections:
                connection.close()
    for run, placement in runs.items():
        own = [row for row in rows if row.get("id") == run]
        assert own, f"no lines of the run at {placement}: {rows}"
        # The runs have not ended: there is no record of them.
        assert {row["storlet"] for row in own if "lines" in row} == {any_tool.storlet}
        assert not any("code" in row for row in own)
        for row in own:
            assert all(line.endswith("word" * 20) for line in row["lines"].splitlines()), row
        assert max(len(row["lines"]) for row in own) <= 4096
        assert sum(row.get("skipped_bytes", 0) for row in own) > 50_000


def test_only_owners_follow_lines(owner: Client, users: dict[str, Client]) -> None:
    other = users["test2:tester2"].on(owner.account)
    assert other.get("", query=_QUERY).status == 403
    assert Client(owner.storage_url, "").get("", query=_QUERY).status == 401
    assert owner.post("", {_READ: json.dumps({"read-only": ["test2:tester2"]})}).status == 204
    try:
        refused = other.get("", query=_QUERY)
        assert (refused.status, refused.error) == (403, "access.denied")
    finally:
        assert owner.post("", {_READ: ""}).status == 204


def test_stored_lines_are_the_owners_and_no_client_writes_them(
    owner: Client, users: dict[str, Client], any_tool: Tool, plain: str
) -> None:
    stream, rows_of = owner.open("GET", "", query=_QUERY, timeout=_SECONDS)
    try:
        assert rows_of.readline() == b"\n"
        # A short run, too, of an account that is followed.
        run = any_tool.get(plain, log="of a short run").headers["X-Storlet-Invocation"]
        rows = rows_until(rows_of, {run})
    finally:
        stream.close()
    assert any("of a short run" in row.get("lines", "") for row in rows), rows
    found = retry_until(lambda: owner.listing("storletlog", prefix=".lines/"), 5)
    assert found
    path = f"storletlog/{found[-1]['name']}"
    assert owner.get(path).headers["X-Delete-At"]
    refused = owner.put(path, b"{}")
    assert (refused.status, refused.error) == (403, "access.denied")
    other = users["test2:tester2"].on(owner.account)
    assert owner.post("storletlog", {"X-Container-Read": "test2:tester2"}).status == 204
    try:
        assert other.get("storletlog").status == 200
        assert other.get(path).status == 403
    finally:
        assert owner.post("storletlog", {"X-Remove-Container-Read": "x"}).status == 204
