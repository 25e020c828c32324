"""Adoption of the sandboxes that an earlier sandboxd left running."""

from __future__ import annotations

import signal
import time

import pytest

from storlet_middleware.sandboxd.errors import EngineUnavailable
from tests.unit.sandboxd.doubles import FakeEngine, FakeNode, greeting, loaded, refused, until, work

V1, V2 = "1" * 64, "2" * 64


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


def test_docker_may_go_away_while_a_supervisor_comes_back(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox with invocations must not be ended for that."""
    path = loaded(node.load())
    before = greeting(path)
    node.stop()
    node.docker.kill(signal.SIGSTOP)

    def away(_engine: FakeEngine, _container_id: str) -> str | None:
        node.docker.is_down = True
        raise EngineUnavailable("Docker is away")

    monkeypatch.setattr(FakeEngine, "end_of", away)
    node.start()
    until(lambda: node.docker.is_down)
    time.sleep(0.3)
    node.docker.kill(signal.SIGCONT)
    assert loaded(node.load()) == path
    assert greeting(path) == before
    node.docker.is_down = False
    assert node.docker.starts == 1
