"""Admission as clients see it: isolation from a flood of another tenant, queue time, no slot leaks.

Tests that need other options, or break something, are in ``tests/probe/test_fairness.py``.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from storlet_middleware.admission.controller import snapshot
from tests.support.accounts import prepare_account, unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import Tool, Toolbox
from tests.support.waiting import retry_until

FLOOD = 80
#: How long a run of the flood takes.
SLOW = "0.5"
CONTENT = b"of another tenant"


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(FLOOD) as pool:
        yield pool


@pytest.fixture(scope="module")
def other(users: dict[str, Client], toolbox: Toolbox) -> Iterator[Tool]:
    """Another account, with a storlet and an object ``<storlet>/o``."""
    client = users["test2:tester2"]
    prepare_account(client)
    stem = unique("other")
    name = toolbox.upload(client, "python", stem)
    assert client.put(name).status == 201
    assert client.put(f"{name}/o", CONTENT).status == 201
    yield Tool(client, name)
    client.delete(f"{name}/o")
    client.delete(name)


def await_no_slot_in_use(cluster: Cluster) -> bool:
    return snapshot(cluster.run_dir) == {}


def test_a_flood_of_slow_runs_does_not_delay_another_tenant(
    cluster: Cluster, anywhere: Tool, plain: str, other: Tool, crowd: ThreadPoolExecutor
) -> None:
    elsewhere = Tool(other.client, other.storlet, anywhere.placement)
    path = f"{other.storlet}/o"
    assert elsewhere.get(path).body == CONTENT
    began = time.monotonic()
    flood = [crowd.submit(anywhere.get, plain, "slow", before=SLOW) for _ in range(FLOOD)]
    assert retry_until(lambda: any(one.waiting for one in snapshot(cluster.run_dir).values()))
    latencies = []
    while not all(one.done() for one in flood):
        sent = time.monotonic()
        answer = elsewhere.get(path)
        latencies.append(time.monotonic() - sent)
        assert (answer.status, answer.body) == (200, CONTENT), answer
        time.sleep(0.05)
    took = time.monotonic() - began
    answers = [one.result() for one in flood]
    counts = Counter(answer.status for answer in answers)
    assert counts[200] > FLOOD // 2
    assert set(counts) <= {200, 429}, counts
    assert all(
        int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status == 429
    )
    assert len(latencies) > 10
    assert sorted(latencies)[len(latencies) // 2] < 0.5, latencies
    # A request queued behind the flood would wait for all of it.
    assert max(latencies) < took / 2, (latencies, took)
    assert retry_until(lambda: await_no_slot_in_use(cluster))


def test_the_answer_has_the_time_in_the_queue(
    cluster: Cluster, any_tool: Tool, plain: str, crowd: ThreadPoolExecutor
) -> None:
    answers = list(crowd.map(lambda _: any_tool.get(plain, "slow", before=SLOW), range(50)))
    waits = []
    for answer in answers:
        assert answer.status == 200, answer
        match = re.search(r"queue;dur=([0-9.]+)", answer.headers["Server-Timing"])
        assert match, answer.headers["Server-Timing"]
        waits.append(float(match[1]))
    assert min(waits) == 0
    assert 100 < max(waits) < 30_000
    log = cluster.process("proxy").log
    slowest = answers[waits.index(max(waits))].headers["X-Storlet-Invocation"]

    def logged() -> float:
        found = re.findall(
            rf"invocation done id={re.escape(slowest)} .* waited_ms=([0-9.]+)",
            log.read_text("utf-8", "replace"),
        )
        return float(found[0]) if found else 0.0

    assert retry_until(logged) == pytest.approx(max(waits), abs=0.2)
