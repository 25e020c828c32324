"""The checks before a run starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.middleware.rule_runs import BOB, MANDATORY, PLAN, RunHarness
from tests.unit.middleware.support import RUN, FakeSwift, Node, Proxy

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")
Make = Callable[..., Proxy]


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


def test_signed_url_runs_storlets_of_rules(harness: RunHarness, swift: FakeSwift) -> None:
    swift.containers["c"].read = ".wsgi.tempurl"
    answer = harness.call("GET", PLAN, user=".wsgi.tempurl")
    assert (answer.status, answer.data) == (200, b"HELLO")


def test_caller_without_execute_permission_is_refused_by_the_rule(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = BOB
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        403,
        "access.rule",
        "R",
    )
    assert b"up.py" in answer.data


def test_caller_without_read_permission_does_not_learn_the_storlet_name(
    harness: RunHarness,
) -> None:
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"up.py" in answer.data) == (403, False)


def test_last_storlet_requested_by_the_client_needs_execute_permission(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.put_storlet("own.py")
    swift.containers["c"].read = BOB
    answer = harness.call(
        "GET", replace(MANDATORY, explicit_count=1), ("up.py", "own.py"), user=BOB
    )
    assert answer.error == "access.rule"
    swift.containers["storlet"].read = BOB
    answer = harness.call(
        "GET", replace(MANDATORY, explicit_count=1), ("up.py", "none.py"), user=BOB
    )
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert (
        harness.call(
            "GET", replace(MANDATORY, explicit_count=1), ("up.py", "own.py"), user=BOB
        ).status
        == 200
    )


def test_all_inputs_count_against_the_maximum(make_proxy: Make) -> None:
    proxy = make_proxy(limits__inputs="2")
    two = {"X-Storlet-Extra-Resources": "/c/o"}
    assert proxy.call("GET", "c/o", {**RUN, **two}).status == 200
    for headers in (
        {"X-Storlet-Extra-Resources": "/c/o,/c/o"},
        {**two, "X-Storlet-Range": "bytes=0-1,2-3"},
        {"X-Storlet-Range": "bytes=0-1,2-3,4-4"},
    ):
        answer = proxy.call("GET", "c/o", {**RUN, **headers})
        assert (answer.status, answer.error) == (400, "bad_request")
        assert b"At most 2 inputs are allowed" in answer.data


def test_the_storlet_is_checked_before_the_target(proxy: Proxy, swift: FakeSwift) -> None:
    """A caller without access to storlets learns nothing about containers."""
    swift.containers["c"].read = "test:bob"
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "none/x"}, user="test:bob")
    assert (answer.status, answer.error) == (403, "access.denied")
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "none/x"})
    assert (answer.status, answer.error) == (404, "target.not_found")
