"""``legacy_status``: status codes of OpenStack Storlets for clients that depend on them, our error
codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.proxies import OtherProxy, other_proxy
from tests.support.storlets import Tool


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[OtherProxy]:
    """A proxy with the old status codes."""
    with other_proxy(cluster, {"filter:storlets": {"legacy_status": "true"}}) as made:
        yield made


@pytest.fixture
def there(proxy: OtherProxy, tool: Tool) -> Tool:
    return Tool(proxy.client(tool.client), tool.storlet, tool.placement)


def test_a_failure_on_get_is_503(there: Tool, plain: str) -> None:
    answer = there.get(plain, "fail")
    assert (answer.status, answer.error) == (503, "storlet.failed")


def test_a_failure_on_put_and_copy_is_500(there: Tool, plain: str) -> None:
    target = unique(plain)
    assert there.put(target, b"x", "fail").status == 500
    assert there.copy(plain, "/" + target, "fail").status == 500
    assert there.client.head(target).status == 404


def test_a_missing_storlet_is_401(there: Tool, plain: str) -> None:
    answer = Tool(there.client, "nosuch.py", there.placement).get(plain)
    assert (answer.status, answer.error) == (401, "storlet.not_found")


def test_success_is_success(there: Tool, plain: str, content: bytes) -> None:
    assert there.get(plain, "upper").body == content.upper()
