"""The code cache of a node: eviction over its limit, fetching evicted code again, and code that a
crash of the node has damaged."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware import code_folders, config
from storlet_middleware.cli import node
from storlet_middleware.keys import tenant_key
from tests.support.accounts import prepare_account, unique, users_of
from tests.support.bundles import tool
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import declaration
from tests.support.waiting import wait_for

SOURCE = """
class Same:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, inputs, outputs, parameters):
        outputs[0].set_metadata({})
        outputs[0].write(inputs[0].read())
        outputs[0].close()
        inputs[0].close()

# %s
"""
SIZE = 64 * 1024
OPTIONS: dict[str, dict[str, object]] = {
    "storlet.conf:sandbox": {"code_cache_bytes": 3 * SIZE},
    "storlet.conf:invocation": {"group_idle_seconds": 0.5},
}


@pytest.fixture(scope="module")
def account(other_cluster: Cluster) -> Iterator[Client]:
    """An account on a cluster whose code cache holds two storlets, and which unloads them after a
    second without runs."""
    with other_cluster.configured(OPTIONS):
        client = users_of(other_cluster.description)["admin:admin"].on(f"AUTH_{unique('cache')}")
        prepare_account(client)
        assert client.put("c").status in (201, 202)
        assert client.put("c/o", b"an object").status == 201
        yield client


def upload(client: Client, name: str) -> None:
    source = (SOURCE % os.urandom(SIZE // 2).hex()).encode()
    assert (
        client.put(f"storlet/{name}", source, declaration("python", f"{name[:-3]}.Same")).status
        == 201
    )


def is_well(client: Client, name: str) -> bool:
    answer = client.get("c/o", {"X-Run-Storlet": name})
    return (answer.status, answer.body, answer.is_broken) == (200, b"an object", False)


def is_anything_loaded(cluster: Cluster, account: str) -> bool:
    status = node.ask(config.load(str(cluster.storlet_conf)), messages.AskNodeStatus())
    return any(sandbox.groups for sandbox in status.sandboxes if sandbox.account == account)


def test_unloaded_code_is_evicted_and_fetched_again(
    other_cluster: Cluster, account: Client
) -> None:
    folder = other_cluster.state_dir / "code" / tenant_key(account.account)

    def versions() -> set[Path]:
        return {path for path in folder.iterdir() if len(path.name) == 64}

    def make_old() -> None:
        """Set its last use to an hour ago: code that was used in the last minute is not evicted."""
        for path in versions():
            os.utime(path, (time.time() - 3600,) * 2)

    names = ["a.py", "b.py", "c.py", "d.py"]
    for name in names:
        upload(account, name)
    assert is_well(account, "a.py")
    (first,) = versions()
    assert is_well(account, "b.py")
    assert first in versions()
    wait_for(
        lambda: not is_anything_loaded(other_cluster, account.account),
        60,
        "both storlets to be unloaded",
    )
    make_old()
    assert is_well(account, "c.py")
    assert is_well(account, "d.py")
    wait_for(lambda: first not in versions(), 20, "the oldest version to be removed")
    assert is_well(account, "a.py")
    assert first in versions()
    wait_for(lambda: not list(folder.glob(".tmp-*")), 10, "what was removed to be deleted")


def test_code_that_a_crash_of_the_node_has_damaged_is_fetched_again(
    other_cluster: Cluster, account: Client
) -> None:
    root = other_cluster.state_dir / "code"
    found: dict[str, Path] = {}
    for name in ("kept", "lost"):
        earlier = set(root.glob("*/*"))
        assert account.put(f"storlet/{name}.storlet", tool(name, name)).status == 201
        assert account.get("c/o", {"X-Run-Storlet": name}).body == f"{name} 9 ".encode()
        (found[name],) = {
            path for path in set(root.glob("*/*")) - earlier if code_folders.is_version(path)
        }
    wait_for(
        lambda: all(code_folders.is_on_disk(path.stat().st_mode) for path in found.values()),
        20,
        "the code to be on the disk",
    )
    wait_for(
        lambda: not is_anything_loaded(other_cluster, account.account),
        60,
        "the code to be unloaded",
    )
    # As if the node had crashed before the sync: other kernel, file without content, no mark.
    other_cluster.stop("sandboxd")
    (found["lost"] / "tool.py").chmod(0o644)
    (found["lost"] / "tool.py").write_bytes(b"")
    found["lost"].chmod(code_folders.IN_MEMORY)
    (root / ".boot").write_text("the kernel before the crash", "utf-8")
    kept = found["kept"].stat().st_ino
    other_cluster.start("sandboxd")
    for name in found:
        assert account.get("c/o", {"X-Run-Storlet": name}).body == f"{name} 9 ".encode()
    assert found["kept"].stat().st_ino == kept
