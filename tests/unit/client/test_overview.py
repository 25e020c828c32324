"""Storlets with versions, limits, access and runs, in a bounded number of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storlet_client import ConfigurationError, NotThere, Storlets
from storlet_client import overview as overviews
from storlet_client.overview import ContainerGrant, Counts, Overview
from tests.unit.client.server import INFO, Reply, Server
from tests.unit.client.test_operations import META

VERSIONS = {
    "versions": [
        {"number": 4, "version": "1.1", "current": False},
        {"number": 3, "version": "1.0", "current": True},
    ]
}


def as_json(value: Any, **headers: str) -> Reply:
    return Reply(200, headers, json.dumps(value).encode())


def record(outcome: str, *names: str) -> dict[str, Any]:
    return {"outcome": outcome, "storlets": [{"name": name} for name in names]}


RECORDS = [
    record("ok", "a.py"),
    record("failed", "a.py", "fruit@2"),
    record("refused", "a.py"),
    record("cancelled", "fruit"),
    record("failed", "other.py"),
]


@pytest.fixture
def wish() -> str:
    return "all"


@pytest.fixture(autouse=True)
def account(server: Server, wish: str) -> None:
    """Two storlets, two containers, a grant on each, and some records."""
    server.on("GET", "/storlet", as_json([{"name": "a.py"}, {"name": "fruit.storlet"}]))
    server.on("HEAD", "/storlet", Reply(204, {"X-Container-Read": "x:ada, .r:*"}))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    bundle = {"X-Object-Meta-Storlet-Language": "python", "Content-Length": "0"}
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, bundle))
    server.on("GET", "/storlet/fruit.storlet", as_json(VERSIONS))
    server.on("GET", "", as_json([{"name": "c"}, {"name": "d"}]), as_json(RECORDS))
    for container, user in (("c", "x:ada"), ("d", "y:bob")):
        grant = {"X-Storlet-Container-Read": f"{user}=a.py, {user}=fruit"}
        server.on("HEAD", f"/{container}", Reply(204, grant))
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Records": wish} if wish else {}))


def test_a_plain_storlet_and_a_bundle_are_described(server: Server, storlets: Storlets) -> None:
    plain, bundle = storlets.overview().rows
    assert (plain.version, plain.number, plain.limits) == ("", None, {"memory": "64M"})
    assert (bundle.version, bundle.number) == ("1.0", 3)
    assert plain.readers == ("x:ada", ".r:*")
    both = (ContainerGrant("c", "x:ada"), ContainerGrant("d", "y:bob"))
    assert plain.grants == bundle.grants == both
    assert plain.counts == Counts(2, 1)
    assert bundle.counts == Counts(2, 1)
    assert bundle.cells["version"] == "1.0 @3"
    assert (bundle.columns["version"], bundle.columns["number"]) == ("1.0", 3)
    assert (plain.cells["limits"], plain.document["limits"]) == (
        {"memory": "64M"},
        {"memory": 64 << 20},
    )
    assert plain.cells["access"] == ["x:ada", ".r:*", "x:ada on c", "y:bob on d"]
    assert sum("storlet-runs" in call for call in server.calls()) == 1


def test_one_storlet_is_described_alike(storlets: Storlets) -> None:
    (row,) = storlets.overview("a.py").rows
    assert row.document["name"] == "a.py"
    with pytest.raises(NotThere):
        storlets.overview("none.py")
    with pytest.raises(ConfigurationError, match="the name of the storlet is empty"):
        storlets.overview("")


@pytest.mark.parametrize(
    ("wish", "counts"),
    [("", Counts(None, 1)), ("failures", Counts(None, 1)), ("none", Counts())],
)
def test_runs_that_are_not_recorded_are_not_counted(storlets: Storlets, counts: Counts) -> None:
    (row,) = storlets.overview("a.py").rows
    assert row.counts == counts
    assert (row.cells["runs"], row.columns["runs"]) == ("-", None)


def test_the_wish_of_a_storlet_replaces_that_of_the_account(
    server: Server, storlets: Storlets
) -> None:
    server.on(
        "HEAD", "/storlet/a.py", Reply(200, {**META, "X-Object-Meta-Storlet-Records": "none"})
    )
    (row,) = storlets.overview("a.py").rows
    assert row.counts == Counts()
    assert "records" not in row.limits


def test_more_records_than_a_page_are_a_minimum(server: Server, storlets: Storlets) -> None:
    server.on("GET", "", as_json([]), as_json(RECORDS, **{"X-Storlet-Runs-Next": "marker"}))
    (row,) = storlets.overview("a.py").rows
    assert (row.cells["runs"], row.cells["failures"]) == ("2+", "1+")
    numbers = ("runs", "failures", "counts_are_minimum")
    assert [row.columns[each] for each in numbers] == [2, 1, True]


def test_a_server_without_records_counts_nothing(server: Server, storlets: Storlets) -> None:
    older = {key: value for key, value in INFO["storlet_handler"].items() if key != "records"}
    server.replies["GET", "/info"] = as_json({"storlet_handler": older})
    (row,) = storlets.overview("a.py").rows
    assert row.counts == Counts()


def test_more_containers_than_the_bound_are_said(
    server: Server, storlets: Storlets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overviews, "MOST_CONTAINERS", 1)
    found: Overview = storlets.overview("a.py")
    assert found.rows[0].grants == (ContainerGrant("c", "x:ada"),)
    assert "storlet grants CONTAINER" in found.notes[0]


def test_a_reader_of_the_storlets_sees_what_it_may(server: Server, storlets: Storlets) -> None:
    for method, path in (("GET", ""), ("HEAD", ""), ("HEAD", "/storlet"), ("HEAD", "/c")):
        server.on(method, path, Reply(403))
    (row,) = storlets.overview("a.py").rows
    assert (row.readers, row.grants, row.counts) == ((), (), Counts())


def test_a_container_that_was_deleted_or_is_hidden_has_no_grants(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "/c", Reply(404))
    server.on("HEAD", "/d", Reply(403))
    assert storlets.overview("a.py").rows[0].grants == ()
