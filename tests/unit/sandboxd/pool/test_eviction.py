"""Idle sandboxes: evicted when the node is full, stopped after a while."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from storlet_middleware.sandboxd.pool import eviction
from storlet_middleware.sandboxd.sandbox import process
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox
from tests.unit.sandboxd.doubles import FakeNode, accounts, greeting, loaded, refused, until, work

MakeNode = Callable[..., FakeNode]


def full(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, **options: object
) -> tuple[FakeNode, int]:
    """A node with one idle sandbox, which is all that it allows, and the pid of that one."""
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.1)
    monkeypatch.setattr(eviction, "AHEAD_SECONDS", 60.0)
    node = make_node(max_per_node=1, **options)
    _, pid = greeting(loaded(node.load("AUTH_a")))
    time.sleep(0.2)
    return node, pid


def test_the_least_recently_used_sandbox_is_evicted(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.3)
    monkeypatch.setattr(eviction, "AHEAD_SECONDS", 60.0)
    node = make_node(max_per_node=2)
    node.load("AUTH_a")
    node.load("AUTH_b")
    time.sleep(0.4)
    node.load("AUTH_a")
    assert greeting(loaded(node.load("AUTH_c")))
    assert accounts(node) == {"AUTH_a", "AUTH_c"}
    until(lambda: len(node.docker.containers) == 2)


def test_a_sandbox_that_has_ended_no_longer_counts_before_docker_removes_it(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, slow_removals: threading.Event
) -> None:
    node, old = full(make_node, monkeypatch)
    assert greeting(loaded(node.load("AUTH_b")))
    assert not Path(f"/proc/{old}/exe").exists()
    assert len(node.docker.containers) == 2
    assert accounts(node) == {"AUTH_b"}
    slow_removals.set()
    until(lambda: len(node.docker.containers) == 1)


@pytest.mark.parametrize("reason", ["out of sight", "a kernel of its own", "Docker is behind"])
def test_a_sandbox_that_docker_has_removed_no_longer_counts(
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    slow_removals: threading.Event,
    reason: str,
) -> None:
    node, old = full(
        make_node, monkeypatch, runtime="runsc" if reason == "a kernel of its own" else "runc"
    )
    if reason == "out of sight":
        monkeypatch.setattr(process, "kill", Mock(side_effect=ProcessLookupError))
    if reason == "Docker is behind":
        monkeypatch.setattr(eviction, "REMOVALS_MAX", 0)
    with ThreadPoolExecutor() as threads:
        going = threads.submit(node.load, "AUTH_b")
        time.sleep(0.3)
        if reason == "Docker is behind":
            until(lambda: not Path(f"/proc/{old}/exe").exists())
        else:
            assert Path(f"/proc/{old}/exe").exists()
        assert not going.done()
        assert len(node.docker.containers) == 1
        slow_removals.set()
        assert greeting(loaded(going.result()))


def test_a_new_tenant_that_fills_the_node_causes_an_eviction(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.2)
    node = make_node(max_per_node=3)
    with work(loaded(node.load("AUTH_a"))):
        loaded(node.load("AUTH_b"))
        time.sleep(0.4)
        assert accounts(node) == {"AUTH_a", "AUTH_b"}, "there is a place"
        loaded(node.load("AUTH_c"))
        until(lambda: accounts(node) == {"AUTH_a", "AUTH_c"})


def test_sandboxes_within_the_maximum_are_not_evicted(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.2)
    node = make_node(max_per_node=2)
    loaded(node.load("AUTH_a"))
    time.sleep(0.4)
    loaded(node.load("AUTH_b"))
    until(lambda: accounts(node) == {"AUTH_b"})
    time.sleep(0.4)
    loaded(node.load("AUTH_a"))
    time.sleep(0.4)
    assert accounts(node) == {"AUTH_a", "AUTH_b"}, "it came back for the place that it had lost"
    loaded(node.load("AUTH_b"))
    assert accounts(node) == {"AUTH_a", "AUTH_b"}


def test_a_tenant_whose_own_sandbox_ended_returns_without_an_eviction(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.2)
    node = make_node(max_per_node=2)
    for account in ("AUTH_a", "AUTH_b"):
        loaded(node.load(account))
    node.docker.kill()
    until(lambda: not accounts(node))
    for account in ("AUTH_a", "AUTH_b"):
        loaded(node.load(account))
        time.sleep(0.4)
    assert accounts(node) == {"AUTH_a", "AUTH_b"}


def test_concurrent_new_tenants_cause_concurrent_evictions(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.1)
    monkeypatch.setattr(eviction, "AHEAD_SECONDS", 60.0)
    node = make_node(max_per_node=3)
    for account in ("AUTH_a", "AUTH_b", "AUTH_c"):
        loaded(node.load(account))
    time.sleep(0.2)
    real, asked, most, all_are_there = Sandbox.retire, 0, 0, threading.Event()

    async def retire(sandbox: Sandbox, idle_seconds: float) -> bool:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        # The first request may start alone; the others find its sandbox here.
        while not all_are_there.is_set():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        asked -= 1
        return await real(sandbox, idle_seconds)

    monkeypatch.setattr(Sandbox, "retire", retire)
    with ThreadPoolExecutor() as threads:
        answers = [threads.submit(node.load, account) for account in ("AUTH_d", "AUTH_e", "AUTH_f")]
        until(lambda: len(accounts(node)) == 6)
        all_are_there.set()
        assert all(greeting(loaded(answer.result())) for answer in answers)
    assert accounts(node) == {"AUTH_d", "AUTH_e", "AUTH_f"}
    assert most >= 2


def test_a_recently_used_sandbox_is_evicted_after_a_delay(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 1.0)
    node = make_node(max_per_node=1)
    loaded(node.load("AUTH_a"))
    loaded(node.load("AUTH_b"))
    node.stop()
    node.start()
    assert greeting(
        loaded(node.load("AUTH_c"))
    )  # b was idle, for all that the new sandboxd knows since a moment
    assert [s.account for s in node.status().sandboxes] == ["AUTH_c"]


def test_a_node_full_of_busy_sandboxes_refuses_with_a_retry_time(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.1)
    node = make_node(max_per_node=1)
    with work(loaded(node.load("AUTH_a"))):
        time.sleep(0.2)
        answer = refused(node.load("AUTH_b"))
        assert (answer.code, answer.retry_after) == ("node.busy", 5)
        assert [s.account for s in node.status().sandboxes] == ["AUTH_a"]


def test_an_idle_sandbox_is_stopped_and_restarted_on_demand(make_node: MakeNode) -> None:
    node = make_node(idle_stop_seconds=0.8)
    path = loaded(node.load())
    until(lambda: not node.docker.containers)
    assert not Path(path).exists()
    assert greeting(loaded(node.load()))


def test_a_working_sandbox_is_not_stopped(make_node: MakeNode) -> None:
    node = make_node(idle_stop_seconds=0.8)
    with work(loaded(node.load())):
        time.sleep(2.2)
        assert len(node.docker.containers) == 1
    until(lambda: not node.docker.containers)


def test_an_unresponsive_sandbox_does_not_delay_evictions_for_others(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.1)
    monkeypatch.setattr(eviction, "STATUS_SECONDS", 0.1)
    monkeypatch.setattr(eviction, "AHEAD_SECONDS", 60.0)
    node = make_node(max_per_node=2)
    pids = [greeting(loaded(node.load(account)))[1] for account in ("AUTH_a", "AUTH_b")]
    time.sleep(0.2)
    os.kill(pids[0], signal.SIGSTOP)
    began = time.monotonic()
    loaded(node.load("AUTH_c"))
    waited = time.monotonic() - began
    os.kill(pids[0], signal.SIGCONT)
    assert waited < 5.0
    assert {sandbox.account for sandbox in node.status().sandboxes} == {"AUTH_a", "AUTH_c"}
