"""Many requests at once: each is served or refused with Retry-After, none hangs, ordinary requests
continue."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.host import Host, new_key
from tests.support.http import Answer
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

MANY = 200
BUSY = {429: ("tenant.busy",), 503: ("node.busy", "sandbox.unavailable")}
#: More than the time that a run may wait for a worker.
SECONDS = 60.0


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MANY + 4) as pool:
        yield pool


def check_honest(answer: Answer, body: bytes) -> None:
    if answer.status == 200:
        assert (answer.is_broken, answer.body) == (False, body)
        return
    assert answer.error in BUSY.get(answer.status, ()), answer
    assert int(answer.headers["Retry-After"]) > 0


def test_two_hundred_requests_at_once_are_served_or_refused(
    tenant: Tenant, placement: str, crowd: ThreadPoolExecutor
) -> None:
    tool = tenant.tool(placement)
    stop = threading.Event()
    plain: list[float] = []

    def ask_plainly() -> None:
        while not stop.is_set():
            began = time.monotonic()
            assert tenant.client.get(tenant.path).body == tenant.content
            plain.append(time.monotonic() - began)

    asking = crowd.submit(ask_plainly)
    began = time.monotonic()
    going = [crowd.submit(tool.get, tenant.path, key=new_key()) for _ in range(MANY)]
    answers = [one.result(SECONDS) for one in going]
    took = time.monotonic() - began
    stop.set()
    asking.result(SECONDS)
    for answer in answers:
        check_honest(answer, tenant.content)
    assert took < SECONDS
    assert Counter(answer.status for answer in answers)[200] > MANY // 2
    assert plain
    assert max(plain) < 10, "ordinary requests waited for storlets"
    assert tenant.is_well(placement)


def test_twenty_first_calls_load_the_storlet_once(
    host: Host, fresh: Tenant, placement: str, crowd: ThreadPoolExecutor
) -> None:
    with host.new_log("sandboxd") as log, host.new_log("object-1", "object-2") as reads:
        answers = list(crowd.map(lambda _: fresh.tool(placement).get(fresh.path), range(20)))
        for answer in answers:
            check_honest(answer, fresh.content)
            assert answer.status == 200, answer
        loads = [
            line
            for line in log().splitlines()
            if "storlet loaded" in line and fresh.account in line
        ]
        starts = [
            line
            for line in log().splitlines()
            if "sandbox started" in line and fresh.account in line
        ]
        fetches = [
            line
            for line in reads().splitlines()
            if '] "GET /d' in line and f"/{fresh.account}/storlet/" in line
        ]
    assert (len(loads), len(starts)) == (1, 1), log()
    # One fetch queries several replicas for the newest, in one transaction.
    assert len({re.findall(r'"(tx[^"]+)"', line)[0] for line in fetches}) == 1, fetches
    assert len(host.sandboxes(fresh.account)) == 1


def test_first_calls_of_many_tenants_at_once_are_served_or_refused(
    host: Host, new_tenant: object, crowd: ThreadPoolExecutor
) -> None:
    tenants = [new_tenant() for _ in range(6)]  # type: ignore[operator]
    for answer, one in zip(
        crowd.map(lambda one: one.tool().get(one.path), tenants), tenants, strict=True
    ):
        assert (answer.status, answer.body) == (200, one.content)
    ids = {sandbox.pid for one in tenants for sandbox in host.sandboxes(one.account)}
    assert len(ids) == 6


def test_many_puts_at_once_are_served_or_refused(tenant: Tenant, crowd: ThreadPoolExecutor) -> None:
    paths = [f"data/{unique('crowd')}" for _ in range(50)]
    answers = list(crowd.map(lambda path: tenant.tool().put(path, path.encode() * 1000), paths))
    for path, answer in zip(paths, answers, strict=True):
        if answer.status == 201:
            assert tenant.client.get(path).body == path.encode() * 1000
        else:
            check_honest(answer, b"")
    wait_for(tenant.is_well, 10, "calm")


@pytest.fixture(scope="module")
def _short_queue(cluster: Cluster) -> Iterator[None]:
    """Requests wait for a worker for a short time only.  (Both placements share one restart.)"""
    with cluster.configured({"storlet.conf:invocation": {"queue_seconds": 3}}):
        yield


@pytest.mark.usefixtures("_short_queue")
def test_requests_beyond_the_queue_time_are_refused(
    host: Host, tenant: Tenant, placement: str, background: ThreadPoolExecutor
) -> None:
    """All workers are busy for longer than the queue time: the other requests are refused in
    time."""
    keys = [new_key() for _ in range(8)]
    held = [
        background.submit(tenant.tool(placement).get, tenant.path, "hold", key=key) for key in keys
    ]
    for key in keys:
        host.run_named(key)
    began = time.monotonic()
    waiting = [background.submit(tenant.tool(placement).get, tenant.path) for _ in range(20)]
    answers = [one.result(30) for one in waiting]
    assert time.monotonic() - began < 10
    for answer in answers:
        assert (answer.status, answer.error) == (429, "tenant.busy"), answer
        assert int(answer.headers["Retry-After"]) > 0
    for key, one in zip(keys, held, strict=True):
        _touch(host, tenant, key)
        assert one.result(30).status == 200
    assert tenant.is_well(placement)


def _touch(host: Host, tenant: Tenant, key: str) -> None:
    """Release a held run from outside, because no worker is free."""
    host.docker(
        "exec",
        host.sandbox(tenant.account).container,
        "/usr/bin/python3",
        "-c",
        f"open('/tmp/go-{key}', 'w')",
    )
