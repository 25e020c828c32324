"""A new upload of a storlet or dependency takes effect at once; runs in progress finish with the
old one."""

from __future__ import annotations

import pytest

from storlet_client.login import Token
from storlet_client.storlets import Storlets
from tests.support.accounts import unique
from tests.support.bundles import tool
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.proxies import other_proxy
from tests.support.storlets import SOURCES, Dependency, Tool, Toolbox, declaration


def test_a_new_upload_takes_effect_at_once(
    owner: Client, toolbox: Toolbox, language: str, plain: str, container: str
) -> None:
    stem = unique("renewed")
    for version in ("1", "2", "3"):
        name = toolbox.upload(owner, language, stem, version=version)
        for placement in ("object", "proxy"):
            assert Tool(owner, name, placement).get(plain, "version").text == version
        assert Tool(owner, name).put(f"{container}/o", b"", "version").status == 201
        assert owner.get(f"{container}/o").text == version


def test_a_deployment_is_in_use_at_another_proxy_at_once(
    owner: Client, cluster: Cluster, toolbox: Toolbox, plain: str
) -> None:
    """Of a plain storlet, and of a bundle."""
    stem = unique("anywhere")
    with other_proxy(cluster) as proxy, Storlets(Token(owner.storage_url, owner.token)) as storlets:
        there = proxy.client(owner)
        for version in ("one", "two", "three"):
            name = toolbox.upload(owner, "python", stem, version=version)
            assert Tool(there, name).get(plain, "version").text == version
            storlets.deploy_bundle(stem, tool(stem, version))
            answer = there.get(plain, {"X-Run-Storlet": stem})
            assert (answer.status, answer.text.split()[0]) == (200, version), answer


def test_a_running_invocation_finishes_on_its_version(
    owner: Client, toolbox: Toolbox, language: str, plain: str
) -> None:
    stem = unique("running")
    name = toolbox.upload(owner, language, stem, version="old")
    tool = Tool(owner, name)
    connection, response = owner.open(
        "GET", plain, tool.headers(), query="do=slow&pieces=4&pause=0.7"
    )
    try:
        first = response.read(6)
        toolbox.upload(owner, language, stem, version="new")
        assert tool.get(plain, "version").text == "new"
        rest = response.read()
    finally:
        connection.close()
    assert (first + rest).decode() == "".join(f"old:{number}\n" for number in range(4))


def test_a_changed_dependency_is_a_new_version(
    owner: Client, toolbox: Toolbox, language: str, placement: str, plain: str
) -> None:
    dependency = Dependency(unique("data") + ".txt", b"first")
    tool = Tool(
        owner,
        toolbox.upload(owner, language, unique("dependent"), dependencies=[dependency]),
        placement,
    )
    assert tool.get(plain, "dependency", file=dependency.name).body == b"first"
    assert Dependency(dependency.name, b"second").upload(owner).status == 201
    assert tool.get(plain, "dependency", file=dependency.name).body == b"second"


def test_code_in_a_dependency_is_found(
    owner: Client, toolbox: Toolbox, language: str, plain: str
) -> None:
    if language == "python":
        dependency = Dependency("helping.py", (SOURCES / "helping.py").read_bytes())
    else:
        dependency = Dependency("helping-1.0.jar", toolbox.java.jar("helping"))
    name = toolbox.upload(owner, language, unique("helped"), dependencies=[dependency])
    assert Tool(owner, name).get(plain, "code", name="helping").text == "helped"


def test_a_missing_dependency_is_a_fault_of_the_storlet(
    owner: Client, toolbox: Toolbox, language: str, plain: str
) -> None:
    dependency = Dependency(unique("gone") + ".txt", b"here")
    tool = Tool(owner, toolbox.upload(owner, language, unique("bereft"), dependencies=[dependency]))
    assert tool.get(plain).status == 200
    assert owner.delete(f"dependency/{dependency.name}").status == 204
    answer = tool.get(plain)
    assert (answer.status, answer.error) == (422, "storlet.load")
    assert dependency.name in answer.text
    assert dependency.upload(owner).status == 201
    assert tool.get(plain).status == 200


def test_a_deleted_storlet_is_missing_at_once(
    owner: Client, toolbox: Toolbox, placement: str, plain: str
) -> None:
    name = toolbox.upload(owner, "python", unique("deleted"))
    tool = Tool(owner, name, placement)
    assert tool.get(plain).status == 200
    assert owner.delete(f"storlet/{name}").status == 204
    answer = tool.get(plain)
    assert (answer.status, answer.error) == (404, "storlet.not_found")


@pytest.mark.parametrize("permissions", ["0755", "0600"])
def test_a_dependency_has_its_declared_permissions(
    owner: Client, toolbox: Toolbox, plain: str, permissions: str
) -> None:
    program = Dependency(unique("program"), b"#!/bin/sh\nexec tr a-z A-Z\n", permissions)
    stem = unique("legacy_exec")
    source = (SOURCES / "legacy_exec.py").read_bytes()
    assert program.upload(owner).status == 201
    headers = declaration("python", f"{stem}.Exec", [program.name])
    assert owner.put(f"storlet/{stem}.py", source, headers).status == 201
    answer = owner.get(plain, {"X-Run-Storlet": f"{stem}.py"}, query={"program": program.name})
    assert answer.status == (200 if permissions == "0755" else 422)


def test_a_new_object_is_seen_at_once(tool: Tool, owner: Client, container: str) -> None:
    for text in (b"one", b"two", b"three"):
        assert owner.put(f"{container}/o", text).status == 201
        assert tool.get(f"{container}/o", "upper").body == text.upper()
