"""``legacy_status``: status codes of OpenStack Storlets for clients that depend on them, our error
codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import Tool


@pytest.fixture(scope="module")
def small(other_cluster: Cluster, other_owner: Client) -> Iterator[str]:
    """The path of a small object on a cluster with the old status codes."""
    with other_cluster.configured({"proxy-server.conf:filter:storlets": {"legacy_status": "true"}}):
        assert other_owner.put("c/small", b"text").status == 201
        yield "c/small"


def test_a_failure_on_get_is_503(there: Tool, small: str) -> None:
    answer = there.get(small, "fail")
    assert (answer.status, answer.error) == (503, "storlet.failed")


def test_a_failure_on_put_and_copy_is_500(there: Tool, small: str) -> None:
    target = f"c/{unique('put')}"
    assert there.put(target, b"x", "fail").status == 500
    assert there.copy(small, "/" + target, "fail").status == 500
    assert there.client.head(target).status == 404


def test_a_missing_storlet_is_401(there: Tool, small: str) -> None:
    answer = Tool(there.client, "nosuch.py", there.placement).get(small)
    assert (answer.status, answer.error) == (401, "storlet.not_found")


def test_success_is_success(there: Tool, small: str) -> None:
    assert there.get(small, "upper").body == b"TEXT"
