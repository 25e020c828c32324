"""``std:distributed``: the client disconnects, a process is killed, or the disk for intermediate
results is full, while splits run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import Cluster
from tests.support.host import Host, new_key
from tests.support.http import raw_connection
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

COUNT = 80
#: The default of ``[library] distributed_concurrency``.
RUNS = 16
HEADERS = {"X-Run-Storlet": "std:distributed"}
#: For the end of all splits after their client has disconnected: a second on an idle machine.  A
#: stall of a busy machine delays one of the tries.
SECONDS_TO_END = 1.0
TRIES = 5
QUIET_SECONDS = 0.5


@pytest.fixture(scope="module")
def many(tenant: Tenant) -> Iterator[str]:
    """A container with small objects, which the tests only read."""
    name = unique("many")
    assert tenant.client.put(name).status == 201
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(
            lambda n: tenant.client.put(f"{name}/{n:03}", b"line %d\n" % n), range(COUNT)
        )
        assert {answer.status for answer in answers} == {201}
    yield name
    delete_large_objects(tenant.client, name)


@pytest.mark.parametrize("more", [{}, {"merge": "concat"}, {"merge": "std:sum"}])
def test_all_splits_end_soon_when_the_client_disconnects(
    host: Host, tenant: Tenant, many: str, more: dict[str, str]
) -> None:
    took: list[float] = []
    while not took or (took[-1] > SECONDS_TO_END and len(took) < TRIES):
        assert tenant.is_well()
        before = host.all_descriptors()
        took.append(seconds_to_end(host, tenant, {"objects": {"container": many}, **more}))
        host.await_descriptors(before)
    assert took[-1] <= SECONDS_TO_END, took
    assert tenant.is_well()


def seconds_to_end(host: Host, tenant: Tenant, document: dict[str, Any]) -> float:
    """The time from the client's disconnection to the end of all splits."""
    with splits_that_wait(host, tenant, document) as key:
        pass
    return seconds_until_quiet(host, key)


@contextmanager
def splits_that_wait(host: Host, tenant: Tenant, document: dict[str, Any]) -> Iterator[str]:
    """The key of the splits of a distribution, which wait; its client then disconnects."""
    key = new_key()
    split = {"storlet": tenant.tool().storlet, "parameters": {"do": "hold", "key": key}}
    body = json.dumps({**document, "split": split, "concurrency": RUNS}).encode()
    with raw_connection(tenant.client) as client:
        client.send_head("POST", "", {**HEADERS, "Content-Length": str(len(body))})
        client.send(body)
        # A storlet has at most eight workers; the other splits wait for one.
        wait_for(lambda: len(host.runs_named(key)) >= 8, 30, "eight splits")
        yield key


def seconds_until_quiet(host: Host, key: str) -> float:
    """The time until no split runs."""
    left = last = time.monotonic()
    # A split that waited for a worker may begin after the others have ended.
    while time.monotonic() - last < QUIET_SECONDS:
        if host.runs_named(key):
            last = time.monotonic()
        assert last - left < 10, "a split runs on"
        time.sleep(0.05)
    return last - left


def test_all_splits_end_soon_when_the_proxy_is_killed(
    host: Host, tenant: Tenant, many: str
) -> None:
    document = {"objects": {"container": many}}
    with host.started_again("proxy"), splits_that_wait(host, tenant, document) as key:
        host.kill_hard("proxy")
        assert seconds_until_quiet(host, key) < 10
    assert tenant.is_well()


def lines_of(tenant: Tenant, many: str) -> list[dict[str, str]]:
    """The lines of a distribution over all objects; each has the right output, or failed."""
    document = {"objects": {"container": many}, "split": "std:nop", "on-failure": "report"}
    body = json.dumps({**document, "concurrency": 2}).encode()
    answer = tenant.client.request("POST", "", HEADERS, body=body)
    assert (answer.status, answer.is_broken) == (200, False), answer
    found: list[dict[str, str]] = [json.loads(line) for line in answer.body.splitlines()]
    assert [row["path"] for row in found] == [f"/{many}/{number:03}" for number in range(COUNT)]
    for number, row in enumerate(found):
        assert row["outcome"] == "failed" or row["output"] == f"line {number}\n", row
    return found


def test_an_object_server_that_is_killed_fails_no_split(
    host: Host, tenant: Tenant, many: str, background: ThreadPoolExecutor
) -> None:
    """The other replica runs the storlets that have begun, too."""
    assert {row["outcome"] for row in lines_of(tenant, many)} == {"ok"}
    with host.started_again("object-1"):
        going = background.submit(lines_of, tenant, many)
        host.kill_hard("object-1")
        assert {row["code"] for row in going.result(60)} == {"ok"}
    assert tenant.is_well()


def test_a_sandbox_that_is_killed_gives_no_wrong_line(
    host: Host, tenant: Tenant, many: str, background: ThreadPoolExecutor
) -> None:
    assert tenant.is_well()
    going = background.submit(lines_of, tenant, many)
    host.docker("kill", host.sandbox(tenant.account).container)
    codes = [row["code"] for row in going.result(90)]
    assert {*codes} <= {"ok", "sandbox.unavailable", "storlet.failed"}, codes
    assert codes.count("ok") >= COUNT - 8
    wait_for(tenant.is_well, 60, "a new sandbox")


def test_a_full_disk_is_an_error_and_leaves_nothing(
    cluster: Cluster, host: Host, tenant: Tenant
) -> None:
    paths = [f"data/{unique('large')}" for _ in range(4)]
    for path in paths:
        assert tenant.client.put(path, b"a\t1\n" * 50_000).status == 201
    document = {"objects": paths, "split": "std:nop", "merge": "std:sum"}
    body = json.dumps(document).encode()
    assert tenant.is_well()
    spool = cluster.state_dir / "spool"
    before = host.all_descriptors()
    with host.tiny_disk_over(spool, "300k"):
        answer = tenant.client.request("POST", "", HEADERS, body=body)
        assert (answer.status, answer.error) == (503, "node.busy"), answer
        assert "its disk is full" in answer.text
        assert not list(spool.iterdir())
        host.await_descriptors(before)
        assert os.statvfs(spool).f_bfree * os.statvfs(spool).f_bsize >= 296 << 10
    answer = tenant.client.request("POST", "", HEADERS, body=body)
    assert (answer.status, answer.body) == (200, b"a\t200000\n")
    assert not list(spool.iterdir())
