"""A stall of the node is not reported as a stall of the storlet."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.accounts import unique
from tests.support.freezing import frozen, thaw, with_children
from tests.support.host import Host, check_numbered, new_key
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

#: Longer than the deadline of the storlet, shorter than Swift's timeouts.
FROZEN_SECONDS = 4.0
SOON = {"X-Storlet-Limit-Timeout-Idle": "2s", "X-Storlet-Limit-Timeout-First-Byte": "2s"}


@pytest.fixture
def tenant(new_tenant: Callable[[], Tenant]) -> Tenant:
    made = new_tenant()
    made.warm_up("proxy")
    return made


def processes_of_sandbox(host: Host, tenant: Tenant) -> list[int]:
    return with_children(host.sandbox(tenant.account).pid)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_server_and_its_sandbox_that_were_frozen_finish_the_run(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, method: str
) -> None:
    """As on a virtual machine that is paused.  The server wakes before the sandbox does."""
    key, target, tool = new_key(), f"data/{unique('made')}", tenant.tool(placement="proxy")
    slow = {"key": key, "trickle": "30", "every": "0.1"}
    going = (
        background.submit(tool.get, tenant.path, "numbered", SOON, **slow)
        if method == "GET"
        else background.submit(tool.put, target, b"body", "numbered", SOON, **slow)
    )
    host.run_named(key)
    time.sleep(1)
    proxy = host.cluster.process("proxy").pid
    assert proxy is not None
    servers, sandbox = with_children(proxy), processes_of_sandbox(host, tenant)
    with frozen([*servers, *sandbox]):
        time.sleep(FROZEN_SECONDS)
        thaw(servers)
        time.sleep(0.5)
    answer = going.result(30)
    assert (answer.status // 100, answer.is_broken) == (2, False), answer
    body = answer.body if method == "GET" else tenant.client.get(target).body
    assert check_numbered(body) == 31


def test_a_frozen_sandbox_is_a_fault_of_the_node(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor
) -> None:
    key, target = new_key(), f"data/{unique('made')}"
    slow = {"key": key, "trickle": "100", "every": "0.1"}
    put = tenant.tool().put
    going = background.submit(put, target, b"body", "numbered", SOON, **slow)
    host.run_named(key, going=going)
    with frozen(processes_of_sandbox(host, tenant)):
        answer = going.result(30)
    assert (answer.status, answer.error) == (503, "sandbox.unavailable"), answer
    assert "the node stalled" in answer.text
    assert tenant.client.get(target).status == 404
    wait_for(lambda: tenant.is_well("proxy"), 30, "a sandbox that works")


def test_a_storlet_that_stalls_on_a_node_that_is_well_is_to_blame(tenant: Tenant) -> None:
    target = f"data/{unique('made')}"
    stalls = {"lines": "1", "pause": "20"}
    answer = tenant.tool().put(target, b"body", "numbered", SOON, **stalls)
    assert (answer.status, answer.error) == (422, "storlet.timeout.idle"), answer
    assert tenant.client.get(target).status == 404
