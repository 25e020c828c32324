"""Pre-warmed sandboxes: assigned once, to one tenant; evicted before tenants' sandboxes; the
assignment survives sandboxd."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.pool import eviction, spares
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox
from tests.unit.sandboxd.doubles import (
    FakeContainer,
    FakeDocker,
    FakeNode,
    greeting,
    loaded,
    refused,
    until,
    work,
)

V1, V2 = "1" * 64, "2" * 64
MakeNode = Callable[..., FakeNode]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "REFILL_SECONDS", 0.05)
    monkeypatch.setattr(spares, "AGAIN_SECONDS", 0.2)


@pytest.fixture
def one(make_node: MakeNode) -> FakeNode:
    """A node with one ready pre-warmed sandbox."""
    node = make_node(prewarmed=1)
    await_pre_warmed(node, 1)
    return node


def waiting(node: FakeNode) -> list[messages.Sandbox]:
    return [sandbox for sandbox in node.status().sandboxes if sandbox.state == "spare"]


def await_pre_warmed(node: FakeNode, count: int) -> None:
    until(lambda: len(waiting(node)) == count)


def tenants(node: FakeNode) -> dict[str, messages.Sandbox]:
    return {sandbox.account: sandbox for sandbox in node.status().sandboxes if sandbox.account}


def container_of(node: FakeNode, container_id: str | None) -> FakeContainer:
    assert container_id is not None
    return node.docker.containers[container_id]


def note(node: FakeNode, sandbox: messages.Sandbox) -> Path:
    return node.home / "run" / "a" / sandbox.key


def test_a_pre_warmed_sandbox_runs_as_root_without_a_tenant_and_code(one: FakeNode) -> None:
    (spare,) = waiting(one)
    assert (spare.account, spare.trust_class, spare.uid) == ("", "user", 0)
    body = container_of(one, spare.container).body
    assert body["User"] == "0:0"
    assert set(body["HostConfig"]["CapAdd"]) == {"SETUID", "SETGID", "SETPCAP"}
    sources = {mount["Source"] for mount in body["HostConfig"]["Mounts"]}
    assert sources == {f"{one.home}/run/c/{spare.key}", f"{one.home}/run/e"}
    assert not list((one.home / "run" / "e").iterdir())


def test_a_tenant_gets_the_pre_warmed_sandbox_with_its_own_code_and_a_new_one_starts(
    one: FakeNode,
) -> None:
    (spare,) = waiting(one)
    code_dir = one.put_code("AUTH_a", V1)
    assert greeting(loaded(one.load("AUTH_a", V1)))[0] == V1
    given = tenants(one)["AUTH_a"]
    assert (given.container, given.key, given.state) == (spare.container, spare.key, "running")
    assert given.uid not in (None, 0)
    pid = container_of(one, spare.container).process.pid
    assert one.docker.mounted == [(code_dir, pid, "/var/lib/storlets")]
    until(lambda: "spare" not in container_of(one, spare.container).name)
    assert container_of(one, spare.container).name.startswith("storlet-unit-")
    await_pre_warmed(one, 1)
    assert waiting(one)[0].container != spare.container


def test_a_pre_warmed_sandbox_is_assigned_to_one_of_many_concurrent_requests(one: FakeNode) -> None:
    answers: dict[str, str] = {}

    def ask(account: str) -> None:
        answers[account] = loaded(one.load(account, V1))

    threads = [threading.Thread(target=ask, args=(f"AUTH_{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({greeting(path)[1] for path in answers.values()}) == 6
    assert len({sandbox.uid for sandbox in tenants(one).values()}) == 6


def test_an_assigned_sandbox_is_removed_at_its_end_and_never_assigned_again(one: FakeNode) -> None:
    (spare,) = waiting(one)
    one.load("AUTH_a", V1)
    process = container_of(one, spare.container).process
    process.kill()
    process.wait()
    until(lambda: spare.container not in one.docker.containers)
    assert not note(one, spare).exists()
    await_pre_warmed(one, 1)
    assert greeting(loaded(one.load("AUTH_b", V1)))
    assert tenants(one)["AUTH_b"].container != spare.container


def test_another_class_or_image_gets_no_pre_warmed_sandbox(with_options: MakeNode) -> None:
    node = with_options(
        "[class:admin]\naccounts = AUTH_a\n[image:AUTH_b]\nimage = example/special:1", prewarmed=1
    )
    await_pre_warmed(node, 1)
    (spare,) = waiting(node)
    node.load("AUTH_a", V1)
    node.load("AUTH_b", V1)
    assert [sandbox.container for sandbox in waiting(node)] == [spare.container]
    assert node.docker.mounted == []


@pytest.mark.parametrize("trouble", ["mount", "assign", "dead"])
def test_a_pre_warmed_sandbox_that_cannot_be_assigned_is_removed_and_the_tenant_gets_a_new_one(
    make_node: MakeNode, trouble: str
) -> None:
    docker = FakeDocker(behaviour="stays" if trouble == "assign" else "good")
    node = make_node(docker, prewarmed=1)
    await_pre_warmed(node, 1)
    (spare,) = waiting(node)
    docker.mount_fails = trouble == "mount"
    process = container_of(node, spare.container).process
    if trouble == "dead":
        process.kill()
    assert greeting(loaded(node.load("AUTH_a", V1)))
    assert tenants(node)["AUTH_a"].container != spare.container
    until(lambda: spare.container not in docker.containers)


def test_a_pre_warmed_sandbox_is_evicted_for_a_tenant_and_never_evicts_one(
    with_options: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "RECENT_SECONDS", 0.1)
    node = with_options("[class:admin]\naccounts = AUTH_a, AUTH_b", prewarmed=1, max_per_node=2)
    await_pre_warmed(node, 1)
    with work(loaded(node.load("AUTH_a", V1))), work(loaded(node.load("AUTH_b", V1))):
        assert waiting(node) == []
        assert refused(node.load("AUTH_c", V1)).code == "node.busy"
        assert set(tenants(node)) == {"AUTH_a", "AUTH_b"}
        assert len(node.docker.containers) == 2


def test_a_pre_warmed_sandbox_that_ends_is_replaced(one: FakeNode) -> None:
    (spare,) = waiting(one)
    process = container_of(one, spare.container).process
    process.kill()
    process.wait()
    until(lambda: [s for s in waiting(one) if s.container != spare.container] != [])
    assert spare.container not in one.docker.containers


def test_a_pre_warmed_sandbox_that_ends_before_it_is_ready_is_not_assigned(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = FakeDocker()
    dead: list[str | None] = []

    async def check(_: spares.Spares, spare: Sandbox) -> None:
        if not dead:
            dead.append(spare.container.id)
            docker.kill()
            while not spare.is_lost:  # noqa: ASYNC110  seen by the loop that we run in
                await asyncio.sleep(0.01)

    monkeypatch.setattr(spares.Spares, "_check_mounting", check)
    node = make_node(docker, prewarmed=1)
    until(lambda: dead and dead[0] not in docker.containers)
    await_pre_warmed(node, 1)


def test_the_next_sandboxd_adopts_pre_warmed_sandboxes_and_the_tenants_of_assigned_ones(
    one: FakeNode,
) -> None:
    path = loaded(one.load("AUTH_a", V1))
    before = greeting(path)
    await_pre_warmed(one, 1)
    (spare,) = waiting(one)
    starts = one.docker.starts
    with work(path) as connection:
        one.stop()
        one.start()
        await_pre_warmed(one, 1)
        assert waiting(one)[0].container == spare.container
        assert loaded(one.load("AUTH_a", V1)) == path
        assert greeting(path) == before
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
    assert one.docker.starts == starts
    assert greeting(loaded(one.load("AUTH_b", V2)))[1] != before[1]
    assert tenants(one)["AUTH_b"].container == spare.container


@pytest.mark.parametrize("text", ["", "null", "{}", '{"container": 1}', "given"])
def test_a_pre_warmed_sandbox_whose_note_is_not_unassigned_is_removed(
    one: FakeNode, text: str
) -> None:
    (spare,) = waiting(one)
    one.stop()
    note(one, spare).write_text(text)
    one.start()
    until(lambda: spare.container not in one.docker.containers)
    await_pre_warmed(one, 1)
    assert waiting(one)[0].container != spare.container


def test_a_pre_warmed_sandbox_without_a_note_is_removed(one: FakeNode) -> None:
    (spare,) = waiting(one)
    one.stop()
    note(one, spare).unlink()
    one.start()
    until(lambda: spare.container not in one.docker.containers)
    until(lambda: not (one.home / "run" / "c" / spare.key).exists())


@pytest.mark.parametrize("change", ["container", "uid", "code_mark"])
def test_a_note_that_does_not_fit_is_not_believed(one: FakeNode, change: str) -> None:
    one.load("AUTH_a", V1)
    given = tenants(one)["AUTH_a"]
    one.stop()
    told = json.loads(note(one, given).read_text())
    note(one, given).write_text(json.dumps({**told, change: 7 if change == "uid" else "other"}))
    one.start()
    until(lambda: given.container not in one.docker.containers)


def test_surplus_pre_warmed_sandboxes_are_removed_and_assigned_ones_stay(one: FakeNode) -> None:
    path = loaded(one.load("AUTH_a", V1))
    await_pre_warmed(one, 1)
    one.stop()
    one.options["prewarmed"] = 0
    one.start()
    until(lambda: len(one.docker.containers) == 1)
    assert loaded(one.load("AUTH_a", V1)) == path


def test_an_outdated_pre_warmed_sandbox_is_removed_and_an_assigned_one_finishes_its_work(
    one: FakeNode,
) -> None:
    path = loaded(one.load("AUTH_a", V1))
    await_pre_warmed(one, 1)
    (spare,) = waiting(one)
    with work(path) as connection:
        for pids in (7, 8):
            one.stop()
            one.limits["pids"] = pids
            one.start()
            assert greeting(loaded(one.load("AUTH_a", V1)))
            until(lambda: spare.container not in one.docker.containers)
            assert "draining" in {sandbox.state for sandbox in one.status().sandboxes}
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
    until(lambda: "draining" not in {sandbox.state for sandbox in one.status().sandboxes})


def test_an_assigned_sandbox_that_was_never_renamed_finishes_its_work_over_two_upgrades(
    one: FakeNode,
) -> None:
    """sandboxd was killed, or Docker hung, between giving it away and its new name."""
    path = loaded(one.load("AUTH_a", V1))
    given = container_of(one, tenants(one)["AUTH_a"].container)
    until(lambda: "spare" not in given.name)
    await_pre_warmed(one, 1)
    with work(path) as connection:
        one.stop()
        given.name = f"storlet-unit-spare-{Path(path).parent.name}"
        for pids in (7, 8):
            one.limits["pids"] = pids
            one.start()
            assert greeting(loaded(one.load("AUTH_a", V1)))
            assert "draining" in {sandbox.state for sandbox in one.status().sandboxes}
            one.stop()
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
    one.start()


def test_an_assigned_sandbox_whose_image_was_removed_is_adopted(one: FakeNode) -> None:
    path = loaded(one.load("AUTH_a", V1))
    with work(path) as connection:
        one.stop()
        one.docker.image = None
        one.start()
        until(lambda: "AUTH_a" in tenants(one))
        assert loaded(one.load("AUTH_a", V1)) == path
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)


def test_a_runtime_with_its_own_kernel_has_no_pre_warmed_sandboxes_and_logs_this(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node(prewarmed=1, runtime="runsc")
    until(lambda: "kernel of its own" in caplog.text)
    assert greeting(loaded(node.load("AUTH_a", V1)))
    assert node.docker.starts == 1


def test_a_missing_image_is_tried_again(make_node: MakeNode) -> None:
    docker = FakeDocker(image=None)
    node = make_node(docker, prewarmed=1)
    until(lambda: node.status().images["storlets/sandbox:latest"]["id"] is None)
    docker.image = "sha256:one"
    await_pre_warmed(node, 1)
