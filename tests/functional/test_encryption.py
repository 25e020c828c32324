"""Encrypted at rest: the storlet sees the plain content, and the disks never do. On a cluster with Swift's keymaster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.client import Client
from tests.functional.tools import Tool, seen
from tests.support.cluster import Cluster

SECRET = b"a secret that must never lie on a disk, " * 2000


@pytest.fixture(scope="module")
def secret(other_owner: Client) -> str:
    """The path of a large secret."""
    assert other_owner.put("c/secret", SECRET, {"X-Object-Meta-Colour": "red"}).status == 201
    return "c/secret"


def test_the_storlet_sees_the_plain_content(there: Tool, secret: str) -> None:
    answer = there.get(secret, "upper")
    assert (answer.status, answer.body) == (200, SECRET.upper()), answer
    # An object node has no keys.
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_a_range_of_the_plain_content(there: Tool, secret: str) -> None:
    answer = there.get(secret, headers={"X-Storlet-Range": "bytes=70003-70013"})
    assert (answer.status, answer.body) == (200, SECRET[70003:70014])
    saw = there.describe(secret, {"X-Storlet-Range": "bytes=0-9,-11"})
    assert (saw["input.0.bytes"], saw["input.1.bytes"]) == ("10", "11")


def test_the_metadata_are_plain(there: Tool, secret: str) -> None:
    assert seen(there.get(secret, "describe"))["input.0.meta.colour"] == "red"


def test_what_is_stored_is_encrypted_again(there: Tool, secret: str, other_cluster: Cluster) -> None:
    word = f"stored by {there.storlet} {there.placement} ".encode()
    assert there.put("c/put", word * 500, set_Word="hidden").status == 201
    assert there.copy("c/put", "/c/copied", "identity").status == 201
    for name in ("c/put", "c/copied"):
        assert there.client.get(name).body == word * 500
    disks = other_cluster.description["disks"]
    files = [path for disk in disks for path in Path(disk["path"]).rglob("objects*/**/*.data")]
    assert files
    assert [path for path in files if word in path.read_bytes() or SECRET[:200] in path.read_bytes()] == []
