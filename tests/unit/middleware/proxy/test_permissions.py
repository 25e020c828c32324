"""The checks before a run starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.middleware.support import RUN, FakeSwift, Node, Proxy

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


@pytest.mark.parametrize(("user", "status"), [("", 401), ("test:bob", 403)])
def test_a_run_needs_read_access_to_the_storlet(
    proxy: Proxy, swift: FakeSwift, node: Node, user: str, status: int
) -> None:
    swift.containers["c"].read = "test:bob"
    answer = proxy.call("GET", "c/o", RUN, user=user)
    assert (answer.status, answer.error) == (status, "access.denied")
    assert node.workers.runs == []


def test_a_run_needs_read_access_to_the_object(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    swift.containers["storlet"].read = "test:bob"
    answer = proxy.call("GET", "c/o", RUN, user="test:bob")
    assert (answer.status, answer.error) == (403, "access.denied")
    assert node.workers.runs == []


@pytest.mark.parametrize(
    ("container", "user", "status"), [("none", "test:tester", 404), ("c", "test:bob", 403)]
)
def test_a_target_that_cannot_be_written_is_refused_before_the_storlet_runs(
    proxy: Proxy, swift: FakeSwift, node: Node, container: str, user: str, status: int
) -> None:
    swift.containers["storlet"].read = "test:bob"
    assert proxy.call("PUT", f"{container}/new", RUN, body=b"x", user=user).status == status
    assert node.workers.runs == []
