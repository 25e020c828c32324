"""Sandboxes from start to end, as a filter sees them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.keys import tenant_key
from storlet_middleware.sandboxd import backoff, endings, eviction, process
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.sandbox import Sandbox
from tests.unit.sandboxd.doubles import (
    FakeDocker,
    FakeEngine,
    FakeNode,
    greeting,
    make_storlet,
    until,
    work,
)

MakeNode = Callable[..., FakeNode]
V1, V2 = "1" * 64, "2" * 64


def loaded(answer: object) -> str:
    assert isinstance(answer, messages.Acquired), answer
    return answer.socket


def refused(answer: object) -> messages.NodeRefused:
    assert isinstance(answer, messages.NodeRefused), answer
    return answer


def accounts(node: FakeNode) -> set[str]:
    return {sandbox.account for sandbox in node.status().sandboxes}


@pytest.fixture
def slow_removals(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Docker removes nothing before this is set."""
    real, go = FakeEngine.remove, threading.Event()

    def slow(engine: FakeEngine, container_id: str) -> None:
        go.wait(10)
        real(engine, container_id)

    monkeypatch.setattr(FakeEngine, "remove", slow)
    yield go
    go.set()


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


def test_a_load_returns_a_served_socket(node: FakeNode) -> None:
    assert greeting(loaded(node.load(version=V1)))[0] == V1


def test_prepare_creates_the_code_directory_and_starts_the_sandbox(node: FakeNode) -> None:
    answer = node.ask(messages.Prepare("AUTH_a", "up.py"))
    assert answer.code_dir == f"{node.home}/state/code/{tenant_key('AUTH_a')}"
    until(lambda: node.docker.starts == 1)


def test_twenty_callers_start_one_sandbox_and_load_once(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(start_seconds=0.2))
    node.put_code("AUTH_a", V1)
    answers: list[object] = []
    request = messages.Acquire("AUTH_a", make_storlet(version=V1))
    threads = [
        threading.Thread(target=lambda: answers.append(node.ask(request))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({loaded(answer) for answer in answers}) == 1
    assert len(answers) == 20
    assert node.docker.starts == 1


def test_two_versions_have_two_sockets_of_one_sandbox(node: FakeNode) -> None:
    first, second = greeting(loaded(node.load(version=V1))), greeting(loaded(node.load(version=V2)))
    assert (first[0], second[0]) == (V1, V2)
    assert first[1] == second[1]


def test_tenants_have_sandboxes_uids_and_directories_of_their_own(node: FakeNode) -> None:
    long = "AUTH_" + 60 * "x"
    paths = {loaded(node.load(long + "1")), loaded(node.load(long + "2"))}
    assert len(paths) == 2
    sandboxes = node.status().sandboxes
    assert len({s.uid for s in sandboxes}) == 2
    assert {s.state for s in sandboxes} == {"running"}


def test_a_repeated_load_of_a_live_group_gives_the_same_socket(node: FakeNode) -> None:
    path = loaded(node.load())
    inode = Path(path).stat().st_ino
    assert loaded(node.load()) == path
    assert Path(path).stat().st_ino == inode


def test_a_group_whose_path_was_removed_gets_a_new_one(node: FakeNode) -> None:
    path = loaded(node.load())
    Path(path).unlink()
    assert greeting(loaded(node.load()))
    assert node.docker.starts == 1


def test_a_killed_sandbox_is_replaced_by_the_next_load(node: FakeNode) -> None:
    _, old = greeting(loaded(node.load()))
    node.docker.kill()
    _, new = greeting(loaded(node.load()))
    assert new != old
    assert len(node.docker.containers) == 1


def test_a_killed_sandbox_leaves_no_socket_and_no_container(node: FakeNode) -> None:
    path = loaded(node.load())
    node.docker.kill()
    until(lambda: not Path(path).exists() and not node.docker.containers)
    assert node.status().sandboxes == ()


def test_a_sandbox_that_dies_while_docker_is_down_is_replaced_when_docker_is_back(
    node: FakeNode,
) -> None:
    node.load()
    node.docker.is_down = True
    node.docker.kill()
    answer = refused(node.load())
    assert (answer.code, answer.retry_after) == ("sandbox.unavailable", 2)
    assert "Connection refused" in answer.message
    node.docker.is_down = False
    assert greeting(loaded(node.load()))
    assert len(node.docker.containers) == 1


def test_a_warm_load_needs_no_docker(node: FakeNode) -> None:
    path = loaded(node.load())
    node.docker.is_down = True
    assert loaded(node.load()) == path


def test_a_missing_image_is_named_with_what_to_run(make_node: MakeNode) -> None:
    answer = refused(make_node(FakeDocker(image=None)).load())
    assert answer.code == "sandbox.unavailable"
    assert "storlets/sandbox:latest" in answer.message
    assert "make up" in answer.message


def test_a_leftover_container_with_our_name_is_removed(node: FakeNode) -> None:
    node.load()
    node.docker.remove_fails = True
    node.docker.kill()
    until(lambda: node.status().sandboxes == () and node.docker.refused_removals)
    node.docker.remove_fails = False
    assert greeting(loaded(node.load()))
    assert len(node.docker.containers) == 1


def test_a_foreign_container_with_a_sandbox_name_is_left_alone(node: FakeNode) -> None:
    node.load()
    (container,) = node.docker.containers.values()
    container.body = {**container.body, "Labels": {}}
    node.docker.remove_fails = True
    node.docker.kill()
    until(lambda: node.status().sandboxes == () and node.docker.refused_removals)
    node.docker.remove_fails = False
    assert "not ours" in refused(node.load()).message
    assert len(node.docker.containers) == 1


def test_a_supervisor_that_ends_before_hello_is_noticed_before_the_deadline(
    make_node: MakeNode,
) -> None:
    began = time.monotonic()
    answer = refused(make_node(FakeDocker(behaviour="exits"), start_deadline_seconds=20).load())
    assert "exit code 3" in answer.message
    assert time.monotonic() - began < 5


def test_a_silent_supervisor_is_removed_at_the_deadline(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(behaviour="silent"), start_deadline_seconds=0.5)
    assert "0.5 seconds" in refused(node.load()).message
    until(lambda: not node.docker.containers)


def test_a_supervisor_that_breaks_the_protocol_is_removed(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(behaviour="garbage"))
    assert refused(node.load()).code == "sandbox.unavailable"
    until(lambda: not node.docker.containers)


def test_a_refused_load_has_a_one_line_reason_and_leaves_no_socket(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(behaviour="refuses"))
    answer = refused(node.load())
    assert (answer.code, answer.message) == (
        "internal",
        "the supervisor refused the storlet: not today",
    )
    assert not [path for path in (node.home / "run" / "s").rglob("*") if not path.is_dir()]


def test_a_sandbox_that_ends_repeatedly_is_restarted_with_back_off(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FREE", 2)
    monkeypatch.setattr(endings, "PATIENCE_SECONDS", 0.0)
    node = make_node(FakeDocker(behaviour="exits"))
    answers = [refused(node.load()) for _ in range(4)]
    assert answers[-1].retry_after == 1
    assert "times in a row" in answers[-1].message
    assert node.docker.starts <= 4


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


def test_leftover_control_groups_of_a_crash_are_removed_at_the_start(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[set[str]] = []
    monkeypatch.setattr(NodeCgroup, "sandboxes", lambda _self: {"left"})
    monkeypatch.setattr(
        NodeCgroup, "remove_sandboxes", lambda _self, groups: removed.append(set(groups))
    )
    make_node()
    until(lambda: removed == [{"left"}])


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
    node = make_node(idle_stop_seconds=1.5)
    path = loaded(node.load())
    until(lambda: not node.docker.containers)
    assert not Path(path).exists()
    assert greeting(loaded(node.load()))


def test_a_working_sandbox_is_not_stopped(make_node: MakeNode) -> None:
    node = make_node(idle_stop_seconds=1.5)
    with work(loaded(node.load())):
        time.sleep(4)
        assert len(node.docker.containers) == 1
    until(lambda: not node.docker.containers)


def test_an_unused_group_is_unloaded(make_node: MakeNode) -> None:
    docker = FakeDocker()
    node = FakeNode(docker)
    node.invocation["group_idle_seconds"] = 1.5
    try:
        node.start()
        path = loaded(node.load(version=V1))
        until(lambda: not node.status().sandboxes[0].groups)
        assert not Path(path).exists()
        assert docker.starts == 1
        assert greeting(loaded(node.load(version=V1)))
    finally:
        node.remove()


def test_a_recreated_code_directory_gets_a_new_sandbox_that_sees_it(node: FakeNode) -> None:
    node.load(version=V1)
    (node.put_code("AUTH_a", V2) / V2).rmdir()
    code_dir = node.put_code("AUTH_a", V1)
    (code_dir / V1).rmdir()
    code_dir.rename(code_dir.with_name("old"))
    assert greeting(loaded(node.load(version=V2)))
    assert node.docker.starts == 2


def test_the_next_sandboxd_adopts_running_sandboxes_with_their_groups(node: FakeNode) -> None:
    path = loaded(node.load(version=V1))
    before = greeting(path)
    with work(path) as connection:
        node.stop()
        assert greeting(path) == before
        node.start()
        assert loaded(node.load(version=V1)) == path
        assert greeting(path) == before
        assert node.docker.starts == 1
        connection.setblocking(False)
        with pytest.raises(
            BlockingIOError
        ):  # neither an answer nor an end: the running invocation was not disturbed
            connection.recv(10)


def test_sandboxes_that_cannot_be_adopted_are_removed(node: FakeNode) -> None:
    node.load("AUTH_dead")
    node.load("AUTH_live")
    node.stop()
    for container in node.docker.containers.values():
        if container.body["Labels"]["org.storlets.account"] == "AUTH_dead":
            container.process.kill()
            container.process.wait()
    (node.home / "run" / "s" / "0123456789abcdef").mkdir()
    node.start()
    until(lambda: [s.account for s in node.status().sandboxes] == ["AUTH_live"])
    until(lambda: len(node.docker.containers) == 1)
    assert not (node.home / "run" / "s" / "0123456789abcdef").exists()


def test_an_outdated_sandbox_is_replaced_when_it_is_idle(node: FakeNode) -> None:
    _, old = greeting(loaded(node.load()))
    node.stop()
    node.limits["pids"] = 7
    node.start()
    assert greeting(loaded(node.load()))[1] != old
    (container,) = node.docker.containers.values()
    assert container.body["HostConfig"]["PidsLimit"] == 7


def test_an_outdated_sandbox_finishes_its_work_beside_the_new_one(node: FakeNode) -> None:
    path = loaded(node.load())
    _, old = greeting(path)
    with work(path) as connection:
        node.stop()
        node.docker.image = "sha256:two"
        node.start()
        _, new = greeting(loaded(node.load()))
        assert new != old
        assert sorted(s.state for s in node.status().sandboxes) == ["draining", "running"]
        time.sleep(0.7)
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
    until(lambda: len(node.docker.containers) == 1)
    assert greeting(loaded(node.load()))[1] == new


def test_an_outdated_sandbox_finishes_its_work_over_any_number_of_restarts(
    node: FakeNode,
) -> None:
    with work(loaded(node.load())) as connection:
        for pids in (7, 8, 9):
            node.stop()
            node.limits["pids"] = pids
            node.start()
            assert greeting(loaded(node.load()))
            until(
                lambda: sorted(s.state for s in node.status().sandboxes) == ["draining", "running"]
            )
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
    until(lambda: len(node.docker.containers) == 1)
    until(lambda: len(list((node.home / "run" / "c").iterdir())) == 1)


def test_a_sandbox_of_an_image_with_another_name_finishes_its_work(node: FakeNode) -> None:
    with work(loaded(node.load())):
        node.stop()
        node.options["image"] = "storlets/sandbox:next"
        node.start()
        until(lambda: [s.state for s in node.status().sandboxes] == ["draining"])
        assert greeting(loaded(node.load()))
        assert len(node.docker.containers) == 2
    until(lambda: len(node.docker.containers) == 1)


def test_a_sandbox_that_dies_while_it_is_set_aside_is_removed(node: FakeNode) -> None:
    with work(loaded(node.load())):
        node.stop()
        node.limits["pids"] = 7
        node.start()
        until(lambda: [s.state for s in node.status().sandboxes] == ["draining"])
        node.docker.kill()
        until(lambda: not node.docker.containers)
    assert greeting(loaded(node.load()))


def test_no_sandbox_is_started_before_docker_has_listed_the_running_ones(node: FakeNode) -> None:
    path = loaded(node.load())
    before = greeting(path)
    node.stop()
    node.docker.is_down = True
    node.start()
    assert refused(node.load()).code == "sandbox.unavailable"
    node.docker.is_down = False
    assert greeting(loaded(node.load())) == before


def test_status_works_without_docker_and_names_the_image(node: FakeNode) -> None:
    assert node.status().images == {"storlets/sandbox:latest": {"id": "sha256:one"}}
    node.docker.is_down = True
    assert node.status().images["storlets/sandbox:latest"]["id"] is None


def test_a_sandbox_that_came_up_weaker_than_configured_is_ended_before_it_gets_code(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.docker.weaker = ["HostConfig.PidsLimit: pids.max is without limit, should be 64"]
    refused = node.load()
    assert refused.code == "sandbox.unavailable"
    assert "weaker than configured" in refused.message
    assert "PidsLimit" not in refused.message, "for the operator only"
    assert 'fault="HostConfig.PidsLimit: pids.max is without limit, should be 64"' in caplog.text
    until(lambda: not node.docker.containers)
    node.docker.weaker = []
    until(lambda: isinstance(node.load(), messages.Acquired))


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


def test_slow_removals_do_not_delay_starts(
    make_node: MakeNode, slow_removals: threading.Event
) -> None:
    node = make_node()
    for number in range(7):
        loaded(node.load(f"AUTH_{number}"))
    node.docker.kill()
    until(lambda: not node.status().sandboxes)
    assert greeting(loaded(node.load("AUTH_new")))
    assert len(node.docker.containers) == 8
    slow_removals.set()
    until(lambda: len(node.docker.containers) == 1)
