"""The commands of the OpenStack client; a functional test runs them in it, as they need its
libraries."""

from __future__ import annotations

import ast
import tomllib

import pytest

from storlet_client.login import Tempauth
from storlet_client.openstack import own_login
from tests.support.cluster import CHECKOUT

MODULE = "storlet_client.openstack.commands"


def test_each_command_is_an_entry_point_and_each_entry_point_a_command() -> None:
    metadata = tomllib.loads((CHECKOUT / "storlet_client/pyproject.toml").read_text())
    points = metadata["project"]["entry-points"]["openstack.storlet.v1"]
    tree = ast.parse((CHECKOUT / f"{MODULE.replace('.', '/')}.py").read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    commands = {name for name in classes if not name.startswith("_")} - {"Passed"}
    assert {value.partition(":")[2] for value in points.values()} == commands
    assert {value.partition(":")[0] for value in points.values()} == {MODULE}


def test_the_openstack_client_logs_in_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OS_STORAGE_URL", "OS_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("ST_AUTH", "http://a"), ("ST_USER", "t:u"), ("ST_KEY", "secret")):
        monkeypatch.setenv(name, value)
    assert own_login({"cloud": None, "auth_url": "", "auth_type": ""}) == Tempauth(
        "http://a", "t:u", "secret"
    )
    for name in ("cloud", "auth_url", "auth_type"):
        assert own_login({name: "given"}) is None
