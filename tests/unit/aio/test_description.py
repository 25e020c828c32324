"""``cluster.json`` of a cluster agrees with its rings, its users and its processes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storlet_middleware.aio import configs, description, java, programs, rings
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.parts import Parts
from storlet_middleware.aio.programs import Entry

ENTRIES = [Entry(name, ["run"], f"/logs/{name}", port=1) for name in ("object-1", "object-2")]


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description.engine, "our_pid", lambda: None)
    monkeypatch.setattr(programs.processes, "leaders", lambda _owner: {"object-1": 5})


def parts(java_dir: Path | None = Path("/cache/java")) -> Parts:
    engine = cast("Any", SimpleNamespace(api=SimpleNamespace(host="unix:///docker.sock")))
    native_dir = Path("/cache/native")
    return Parts(Path("/venv"), engine, java_dir, native_dir, "storlets/sandbox:1")


def test_it_is_json_and_names_existing_servers_and_all_rings(place: Home) -> None:
    made = description.describe(place, ENTRIES, parts(), check=False)
    assert json.loads(json.dumps(made)) == made
    names = {process["name"] for process in made["processes"]}
    assert {disk["object_server"] for disk in made["disks"]} == names
    assert {disk["name"] for disk in made["disks"]} == set(rings.DISKS)
    assert set(made["rings"]) == set(rings.FILES)
    assert made["node_id"] == place.node_id


def test_every_user_has_a_key_and_the_account_of_its_name(place: Home) -> None:
    made = description.describe(place, ENTRIES, parts(), check=False)
    assert set(made["users"]) == set(made["storage_urls"]) == set(configs.USERS)
    for user, url in made["storage_urls"].items():
        account = user.partition(":")[0]
        assert url == f"http://127.0.0.1:{place.ports['proxy']}/v1/AUTH_{account}"


def test_with_a_check_every_user_logs_in(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def log_in(auth_url: str, user: str, key: str) -> SimpleNamespace:
        assert key == configs.USERS[user][0]
        return SimpleNamespace(storage_url=f"{auth_url} {user}")

    monkeypatch.setattr(description, "log_in", log_in)
    made = description.describe(place, ENTRIES, parts())
    assert made["storage_urls"] == {user: f"{made['auth_url']} {user}" for user in configs.USERS}


def test_a_checkout_without_java_sources_has_no_java_parts(place: Home) -> None:
    made = description.describe(place, ENTRIES, parts(None), check=False)
    assert (made["java_dir"], made["java_api_jar"]) == (None, None)
    made = description.describe(place, ENTRIES, parts(), check=False)
    assert made["java_api_jar"] == f"/cache/java/{java.API_JAR}"
