"""The checks before a run starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.middleware.rule_runs import BOB, MANDATORY, PLAN, RunHarness
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


def test_signed_url_runs_only_storlets_of_rules(harness: RunHarness, swift: FakeSwift) -> None:
    for user in (".wsgi.tempurl", ".wsgi.formpost"):
        assert harness.call("GET", None, user=user).status == 401
        assert harness.call("GET", replace(PLAN, explicit_last=True), user=user).status == 401
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
        "GET", replace(MANDATORY, explicit_last=True), ("up.py", "own.py"), user=BOB
    )
    assert answer.error == "access.rule"
    swift.containers["storlet"].read = BOB
    answer = harness.call(
        "GET", replace(MANDATORY, explicit_last=True), ("up.py", "none.py"), user=BOB
    )
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert (
        harness.call(
            "GET", replace(MANDATORY, explicit_last=True), ("up.py", "own.py"), user=BOB
        ).status
        == 200
    )


def test_missing_storlet_of_a_rule_is_not_reported_as_404(harness: RunHarness) -> None:
    answer = harness.call("GET", MANDATORY, ("none.py",))
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        422,
        "storlet.not_found",
        "R",
    )
