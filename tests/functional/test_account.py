"""The account switch, /info, and isolation between accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.accounts import delete_large_objects, info_of, prepare_account, unique
from tests.support.http import Client
from tests.support.storlets import SOURCES, Tool, Toolbox, declaration

OFF = "Account disabled for storlets"


@pytest.fixture
def stranger(admin: Client) -> Iterator[Client]:
    """A new account, used by its reseller's administrator; storlets are not enabled."""
    client = admin.on("AUTH_" + unique("new"))
    assert client.request("PUT", "").status in (201, 202)
    assert client.put("c").status == 201
    assert client.put("c/o", b"text").status == 201
    yield client
    for entry in client.listing(""):
        delete_large_objects(client, entry["name"])
    client.delete("")


def test_storlets_are_refused_before_the_account_enables_them(stranger: Client) -> None:
    run = {"X-Run-Storlet": "x.py"}
    assert stranger.put("storlet").status in (201, 400)
    for answer in (
        stranger.get("c/o", run),
        stranger.put("c/new", b"x", run),
        stranger.request("COPY", "c/o", run | {"Destination": "/c/new"}),
        stranger.put("storlet/x.py", b"x", declaration("python", "x.X")),
        stranger.put("dependency/x", b"x", {"X-Object-Meta-Storlet-Dependency-Version": "1"}),
        stranger.post("c", {"X-Storlet-Container-Read": "test:tester3", "X-Storlet-Name": "x.py"}),
    ):
        assert answer.status == 400, answer
        assert OFF in answer.text
    assert stranger.get("c/o").body == b"text"
    assert stranger.get("c/new").status == 404


@pytest.mark.parametrize("value", ["True", "yes", "1"])
def test_storlets_can_be_switched_on_and_off(
    stranger: Client, toolbox: Toolbox, value: str
) -> None:
    assert stranger.post("", {"X-Account-Meta-Storlet-Enabled": value}).status in (201, 204)
    for container in ("storlet", "dependency"):
        assert stranger.put(container).status in (201, 202)
    if value != "True":
        assert stranger.get("c/o", {"X-Run-Storlet": "x.py"}).status == 404
        return
    name = toolbox.upload(stranger, "python", "multitool")
    assert Tool(stranger, name).get("c/o", "upper").body == b"TEXT"
    assert stranger.post("", {"X-Account-Meta-Storlet-Enabled": "false"}).status in (201, 204)
    answer = Tool(stranger, name).get("c/o", "upper")
    assert answer.status == 400
    assert OFF in answer.text


def test_only_the_owner_enables_storlets(users: dict[str, Client], owner: Client) -> None:
    outsider = users["test2:tester2"].on(owner.account)
    assert outsider.post("", {"X-Account-Meta-Storlet-Enabled": "True"}).status == 403


def test_accounts_with_a_common_prefix_share_nothing(admin: Client) -> None:
    """OpenStack Storlets cuts account names to 13 characters: the two then share sandbox, code and
    files."""
    stem = "AUTH_" + unique("alike_and_long")
    clients = [admin.on(f"{stem}_{letter}") for letter in "ab"]
    source = (SOURCES / "multitool.py").read_text()
    for client, version in zip(clients, "ab", strict=True):
        assert client.request("PUT", "").status in (201, 202)
        prepare_account(client)
        assert client.put("c").status in (201, 202)
        assert client.put("c/o", b"text").status == 201
        body = source.replace('VERSION = "1"', f'VERSION = "{version}"').encode()
        assert (
            client.put("storlet/same.py", body, declaration("python", "same.Multitool")).status
            == 201
        )
    tools = [Tool(client, "same.py") for client in clients]
    assert [tool.get("c/o", "version", count="shared").text for tool in tools] == ["a", "b"]
    assert [tool.count("c/o", "shared") for tool in tools] == [1, 1]
    for client in clients:
        for entry in client.listing(""):
            delete_large_objects(client, entry["name"])


def test_extra_resources_stay_in_the_account(
    any_tool: Tool, users: dict[str, Client], plain: str
) -> None:
    """The names are containers of the account in the URL; a request cannot name another."""
    other = users["test2:tester2"]
    name = unique("theirs")
    assert other.put(name).status == 201
    assert other.put(f"{name}/o", b"not yours").status == 201
    for path in (f"/{name}/o", f"/../{other.account}/{name}/o", f"/v1/{other.account}/{name}/o"):
        answer = any_tool.get(plain, headers={"X-Storlet-Extra-Resources": path})
        assert answer.status in (400, 404)
        assert b"not yours" not in answer.body
    delete_large_objects(other, name)


def test_info_lists_containers_languages_limits_and_protocol(description: dict[str, Any]) -> None:
    info = info_of(description)["storlet_handler"]
    assert (info["storlet_container"], info["storlet_dependency"]) == ("storlet", "dependency")
    text = json.dumps(info).lower()
    for word in (
        "storletlog",
        "python",
        "3.11",
        "java",
        "17",
        "limits",
        "metadata_bytes",
        "protocol",
    ):
        assert word in text, word


def test_info_has_the_keys_of_openstack_storlets(description: dict[str, Any]) -> None:
    info = info_of(description)
    assert "storlet_handler" in info
    assert set(info["storlet_handler"]) >= {"storlet_container", "storlet_dependency"}
    assert info["storlet_handler"]["rules"] == {
        "container": "storlet_rules",
        "object": "rules.yaml",
        "max_bytes": 1 << 20,
    }


def test_ordinary_responses_have_no_storlet_headers(
    owner: Client, plain: str, content: bytes
) -> None:
    answer = owner.get(plain)
    assert answer.body == content
    assert "Etag" in answer.headers
    names = [name.lower() for name in answer.headers]
    assert not [name for name in names if "storlet" in name]
    assert "server-timing" not in names
