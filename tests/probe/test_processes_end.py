"""Worker, process 1 and Docker container of a sandbox are killed: the affected request fails, the
next one works."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.accounts import unique
from tests.support.host import (
    Host,
    Process,
    Sandbox,
    check_numbered,
    is_alive,
    new_key,
    read_process,
    stream_links,
)
from tests.support.http import Answer
from tests.support.storlets import Tool
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

OLD = b"the old object, byte for byte"
MANY_LINES = "40000"
VICTIMS = ("worker", "process 1", "container")
#: Process 1 and the container end in the same way, so process 1 is killed at the object node only.
at_either = pytest.mark.parametrize(
    ("victim", "placement"),
    [(one, "object") for one in VICTIMS] + [("worker", "proxy"), ("container", "proxy")],
)
#: Blame: the tenant's code if its worker dies, the node if the sandbox does.
ENDS = {
    "worker": (422, "storlet.failed"),
    "process 1": (503, "sandbox.unavailable"),
    "container": (503, "sandbox.unavailable"),
}


@pytest.fixture(scope="module")
def owners(new_tenant: Callable[[], Tenant]) -> Callable[[str, str], Tenant]:
    """The account of a victim at a placement.

    The tests end its sandbox five times at most: only further ends delay the next start
    (``sandboxd.pool.backoff``).
    """
    return functools.cache(lambda _victim, _placement: new_tenant())


@pytest.fixture
def owner(owners: Callable[[str, str], Tenant], victim: str, placement: str) -> Tenant:
    return owners(victim, placement)


def kill(host: Host, sandbox: Sandbox, worker: Process, victim: str) -> None:
    first = read_process(sandbox.pid)
    assert first is not None
    if victim == "worker":
        os.kill(worker.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(worker), 5, "the worker's end")
        return
    if victim == "container":
        host.docker("kill", sandbox.container)
    else:
        os.kill(sandbox.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(first), 5, "the sandbox's end")


def check_told(answer: Answer, victim: str) -> None:
    assert (answer.status, answer.error) == ENDS[victim], answer
    assert answer.status != 503 or int(answer.headers["Retry-After"]) > 0


@at_either
def test_a_kill_between_two_requests_does_not_affect_the_next(
    host: Host, owner: Tenant, placement: str, victim: str
) -> None:
    key = new_key()
    assert owner.tool(placement).get(owner.path, key=key).body == owner.content
    worker = host.run_named(key)
    kill(host, host.sandbox(owner.account), worker, victim)
    assert owner.is_well(placement)
    assert len(host.sandboxes(owner.account)) == 1


@at_either
def test_a_kill_before_the_first_byte_is_reported(
    host: Host, owner: Tenant, placement: str, victim: str, background: ThreadPoolExecutor
) -> None:
    key = new_key()
    going = background.submit(owner.tool(placement).get, owner.path, "hold", key=key)
    worker = host.run_named(key, going=going)
    kill(host, host.sandbox(owner.account), worker, victim)
    check_told(going.result(30), victim)
    assert owner.is_well(placement)
    assert not host.runs_named(key), "it was run again"


@at_either
def test_a_kill_in_the_body_breaks_the_response(
    host: Host, owner: Tenant, placement: str, victim: str, background: ThreadPoolExecutor
) -> None:
    key = new_key()
    going = background.submit(
        owner.tool(placement).get, owner.path, "hold", key=key, lines=MANY_LINES
    )
    worker = host.run_named(key, going=going)
    wait_for(lambda: _waits(worker), 10, "all lines to be taken")
    kill(host, host.sandbox(owner.account), worker, victim)
    answer = going.result(30)
    assert (answer.status, answer.is_broken) == (200, True)
    assert check_numbered(answer.body) <= int(MANY_LINES)
    assert owner.is_well(placement)
    assert not host.runs_named(key), "it was run again"


def _waits(worker: Process) -> bool:
    """Return True if it sleeps in ``hold`` and not in a write to a full pipe."""
    return "nanosleep" in Path(f"/proc/{worker.pid}/wchan").read_text(encoding="ascii")


@pytest.mark.parametrize(("victim", "placement"), [(one, "object") for one in VICTIMS])
def test_a_kill_during_a_put_stores_nothing(
    host: Host, owner: Tenant, placement: str, victim: str, background: ThreadPoolExecutor
) -> None:
    path, key = f"data/{unique('put')}", new_key()
    assert owner.client.put(path, OLD).status == 201
    going = background.submit(owner.tool(placement).put, path, b"new", "hold", key=key, lines="10")
    worker = host.run_named(key, going=going)
    kill(host, host.sandbox(owner.account), worker, victim)
    check_told(going.result(30), victim)
    assert owner.client.get(path).body == OLD
    assert owner.is_well(placement)


@at_either
def test_a_kill_during_a_copy_stores_nothing(
    host: Host, owner: Tenant, placement: str, victim: str, background: ThreadPoolExecutor
) -> None:
    path, key = f"data/{unique('copy')}", new_key()
    assert owner.client.put(path, OLD).status == 201
    going = background.submit(
        owner.tool(placement).copy, owner.path, path, "hold", key=key, lines="10"
    )
    worker = host.run_named(key, going=going)
    kill(host, host.sandbox(owner.account), worker, victim)
    check_told(going.result(30), victim)
    assert owner.client.get(path).body == OLD
    assert owner.is_well(placement)


@pytest.mark.parametrize("pieces", ["0", "1"])
def test_a_killed_jvm_is_reported_and_replaced(
    host: Host,
    tenant: Tenant,
    java: Callable[[str], Tool],
    placement: str,
    pieces: str,
    background: ThreadPoolExecutor,
) -> None:
    tool = java(placement)
    assert tool.get(tenant.path).body == tenant.content
    going = background.submit(
        tool.get,
        tenant.path,
        "slow",
        before="0" if pieces == "1" else "3600",
        pieces=pieces,
        pause="3600",
    )
    sandbox = host.sandbox(tenant.account)
    wait_for(lambda: _java_at_work(host, sandbox), 10, "a Java worker at work")
    os.kill(_java_at_work(host, sandbox)[0].pid, signal.SIGKILL)
    answer = going.result(30)
    if pieces == "0":
        check_told(answer, "worker")
    else:
        assert answer.is_broken or (answer.status, answer.error) == ENDS["worker"]
    assert tool.get(tenant.path).body == tenant.content


def _java_at_work(host: Host, sandbox: Sandbox) -> list[Process]:
    return [
        one for one in host.inside(sandbox)
        if _is_java(one) and stream_links(one.pid)
    ]  # fmt: skip


def _is_java(process: Process) -> bool:
    try:
        return Path(f"/proc/{process.pid}/exe").readlink().name == "java"
    except OSError:
        return False  # it has ended meanwhile


def test_a_killed_worker_does_not_affect_other_storlets_of_its_sandbox(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor
) -> None:
    keys = [new_key() for _ in range(3)]
    going = [
        background.submit(tenant.tool().get, tenant.path, "hold", key=key, lines="100")
        for key in keys
    ]
    workers = [host.run_named(key) for key in keys]
    os.kill(workers[0].pid, signal.SIGKILL)
    first = going[0].result(30)
    assert first.is_broken or first.status == 422
    for key, one in zip(keys[1:], going[1:], strict=True):
        assert tenant.tool().get(tenant.path, "touch", go=key).status == 200
        answer = one.result(30)
        assert (answer.status, answer.is_broken, check_numbered(answer.body)) == (200, False, 101)


def test_code_in_the_sandbox_cannot_kill_its_process_1(host: Host, tenant: Tenant) -> None:
    assert tenant.is_well()
    before = host.sandbox(tenant.account)
    answer = tenant.tool().get(tenant.path, "kill_all")
    assert answer.status in (200, 422), answer
    assert tenant.is_well()
    assert host.sandbox(tenant.account) == before


def test_processes_that_a_storlet_leaves_behind_are_ended(host: Host, tenant: Tenant) -> None:
    child = new_key()
    assert tenant.tool().get(tenant.path, "orphans", child=child).status == 200
    wait_for(lambda: not host.runs_named(child), 5, "the orphans' end")
    assert tenant.is_well()


# The failure must reach the proxy before it sends the status line: on a busy machine the response
# breaks off instead.
@pytest.mark.alone
def test_copies_that_could_still_write_make_the_run_a_failure_and_are_ended(
    host: Host, tenant: Tenant
) -> None:
    child = new_key()
    answer = tenant.tool().get(tenant.path, "copies", child=child)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    wait_for(lambda: not host.runs_named(child), 5, "the copies' end")
    assert tenant.is_well()
