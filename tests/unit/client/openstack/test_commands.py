"""The commands of the OpenStack client; a functional test runs them in it, as they need its
libraries."""

from __future__ import annotations

import ast
import tomllib

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
