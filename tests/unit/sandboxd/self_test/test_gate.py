"""The gate: a class's self-test opens and closes it; on a node with a Docker double of child
processes."""

from __future__ import annotations

import errno
import functools
import json
import logging
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.config import CLASSES
from storlet_middleware.sandboxd.docker import LABEL_ACCOUNT
from storlet_middleware.sandboxd.plan import SELF_TEST_ACCOUNT
from storlet_middleware.sandboxd.self_test import gate as gates
from storlet_middleware.sandboxd.self_test import self_tests
from storlet_middleware.sandboxd.self_test.gate import Gate
from storlet_middleware.self_test import FAIL, PASS, UNTESTED
from tests.unit.sandboxd.doubles import FakeDocker, FakeEngine, FakeNode, greeting, until

MakeGated = Callable[..., FakeNode]
V1 = "1" * 64


@pytest.fixture
def gated() -> Iterator[MakeGated]:
    """Makes started nodes with a real gate; ``AUTH_admin`` is of class admin."""
    nodes: list[FakeNode] = []

    def make(
        docker: FakeDocker | None = None,
        at_start: Sequence[str] = CLASSES,
        **options: object,
    ) -> FakeNode:
        node = FakeNode(docker or FakeDocker(), **options)
        node.gate = functools.partial(Gate, at_start=at_start)
        node.more_options = "[class:admin]\naccounts = AUTH_admin\n"
        nodes.append(node)
        return node.start()

    yield make
    for node in nodes:
        node.remove()


def states(node: FakeNode) -> dict[str, str]:
    return {result.trust_class: result.state for result in node.status().self_tests}


def once_known(node: FakeNode) -> dict[str, str]:
    """The states once every class has one."""
    until(lambda: UNTESTED not in states(node).values(), 10)
    return states(node)


def is_loaded(node: FakeNode, account: str = "AUTH_a") -> bool:
    answer = node.load(account, V1)
    return isinstance(answer, messages.Acquired) and greeting(answer.socket)[0] == V1


def refusal(node: FakeNode, account: str = "AUTH_a") -> messages.NodeRefused:
    answer = node.load(account, V1)
    assert isinstance(answer, messages.NodeRefused), answer
    return answer


def test_a_load_that_comes_before_the_first_result_waits_for_it(gated: MakeGated) -> None:
    node = gated(FakeDocker(start_seconds=0.3))
    assert is_loaded(node)
    assert states(node)["user"] == PASS


def test_every_class_is_tested_in_a_sandbox_that_is_removed(gated: MakeGated) -> None:
    node = gated()
    assert once_known(node) == {"user": PASS, "admin": PASS}
    assert node.docker.starts == 2
    assert not node.docker.containers
    assert not (node.home / "state" / "self-test-object").exists()


def test_a_class_that_is_not_tested_at_the_start_is_tested_before_its_first_load(
    gated: MakeGated,
) -> None:
    node = gated(FakeDocker(by_class={"admin": "leaks"}), at_start=("user",))
    assert is_loaded(node)
    assert states(node) == {"user": PASS, "admin": UNTESTED}
    assert refusal(node, "AUTH_admin").message.startswith("sandboxes of class admin are closed")
    assert states(node) == {"user": PASS, "admin": FAIL}


def test_the_sandbox_of_the_test_is_small_and_no_tenants(gated: MakeGated) -> None:
    docker = FakeDocker(start_seconds=0.3)
    node = gated(docker)
    until(lambda: docker.bodies)
    assert not node.status().sandboxes
    body = docker.bodies[0]
    assert body["Labels"][LABEL_ACCOUNT] == SELF_TEST_ACCOUNT
    assert body["HostConfig"]["Memory"] == 128 << 20
    assert body["HostConfig"]["PidsLimit"] == 64


def test_a_class_that_fails_is_closed_with_the_reason(gated: MakeGated) -> None:
    node = gated(FakeDocker(by_class={"user": "leaks"}))
    answer = refusal(node)
    assert answer.code == "sandbox.unavailable"
    assert (
        answer.message
        == "sandboxes of class user are closed on this node: self-test syscall-mount has failed"
    )
    assert is_loaded(node, "AUTH_admin")
    assert once_known(node) == {"user": FAIL, "admin": PASS}


def test_a_closed_class_pre_warms_no_sandbox(gated: MakeGated) -> None:
    node = gated(FakeDocker(behaviour="leaks"))
    once_known(node)
    node.ask(messages.Prepare("AUTH_a", "up.py"))
    assert refusal(node)
    assert node.docker.starts == 2


def test_a_failure_that_the_operator_accepts_by_name_closes_nothing(gated: MakeGated) -> None:
    node = gated(FakeDocker(behaviour="leaks"), accept_failures="limit-memory, syscall-mount")
    assert is_loaded(node)
    result = node.status().self_tests[0]
    assert (result.state, result.faults["syscall-mount"]) == (PASS, "the kernel did it")


def test_a_name_that_no_test_has_is_reported(
    gated: MakeGated, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "storlet.sandboxd")
    once_known(gated(accept_failures="syscall-mountt"))
    assert (
        "unknown self-test accept_failures=syscall-mountt; did you mean syscall-mount?"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("behaviour", "name"),
    [("dies", "sandbox-survives"), ("spoils", "donated-unchanged")],
    ids=["dies", "spoils"],
)
def test_findings_from_outside_have_a_name_too(gated: MakeGated, behaviour: str, name: str) -> None:
    node = gated(FakeDocker(behaviour=behaviour))
    assert f"self-test {name} has failed" in refusal(node).message


def test_a_class_whose_sandbox_only_ended_is_tested_again_by_itself(
    gated: MakeGated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "RETEST_SECONDS", 0.1)
    node = gated(FakeDocker(behaviour="dies"))
    assert refusal(node)
    node.docker.behaviour = "good"
    until(lambda: states(node) == {"user": PASS, "admin": PASS})
    assert is_loaded(node)


def test_a_defect_of_the_self_test_leaves_the_class_untested_and_is_reported(
    gated: MakeGated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise KeyError("a defect")

    monkeypatch.setattr(self_tests, "donated", broken)
    assert "the self-test broke off" in refusal(gated()).message
    assert "self-test broke off class=user" in caplog.text


def test_a_sandbox_that_came_up_weaker_closes_its_class(gated: MakeGated) -> None:
    node = gated(FakeDocker(weaker=["CapDrop: 1"]))
    assert "self-test sandbox-as-configured has failed" in refusal(node).message
    once_known(node)
    until(lambda: not node.docker.containers)


def test_without_docker_a_class_is_untested_and_a_load_tries_again(
    gated: MakeGated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "AGAIN_SECONDS", 60)
    node = gated(FakeDocker())
    once_known(node)
    node.stop()
    node.docker.is_down = True
    node.start()
    assert states(node) == {"user": UNTESTED, "admin": UNTESTED}
    node.docker.is_down = False
    assert is_loaded(node)


def test_a_load_without_the_image_is_refused_with_the_reason(gated: MakeGated) -> None:
    node = gated(FakeDocker(image=None))
    assert "is not on this node" in refusal(node).message
    assert states(node)["user"] == UNTESTED


def test_a_requested_test_closes_and_opens_a_class(gated: MakeGated) -> None:
    node = gated()
    assert is_loaded(node)
    node.docker.behaviour = "leaks"
    results = {result.trust_class: result for result in node.ask(messages.AskSelfTest()).self_tests}
    assert results["user"].faults["syscall-mount"] == "the kernel did it"
    assert refusal(node)
    assert [sandbox.state for sandbox in node.status().sandboxes] == ["running"], (
        "what runs goes on"
    )
    node.docker.behaviour = "good"
    assert [result.state for result in node.ask(messages.AskSelfTest()).self_tests] == [PASS, PASS]
    assert is_loaded(node)


def test_a_test_that_cannot_be_run_leaves_the_state_as_it_is(gated: MakeGated) -> None:
    node = gated()
    once_known(node)
    node.docker.image = None
    answer = node.ask(messages.AskSelfTest())
    assert isinstance(answer, messages.NodeRefused)
    assert answer.code == "sandbox.unavailable"
    assert states(node) == {"user": PASS, "admin": PASS}


def test_the_proxies_read_states_and_nothing_more(gated: MakeGated) -> None:
    node = gated(FakeDocker(by_class={"user": "leaks"}))
    once_known(node)
    path = node.home / "run" / "self-test.json"
    assert json.loads(path.read_text()) == {"user": "fail", "admin": "pass"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_sandbox_of_a_test_that_sandboxd_did_not_survive_is_removed(gated: MakeGated) -> None:
    node = gated(FakeDocker())
    once_known(node)
    node.stop()
    leftover = FakeEngine(node.docker).start("storlet-unit-left", node.docker.bodies[0])
    node.start()
    once_known(node)
    until(lambda: leftover not in node.docker.containers)
    assert not node.status().sandboxes


def test_a_disk_that_takes_no_file_leaves_a_class_untested(
    gated: MakeGated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(self_tests, "donated", full)
    node = gated()
    assert refusal(node).message == "the file for the self-test: No space left on device"
    assert states(node)["user"] == UNTESTED


class Once(dict[str, str]):
    """Behaviours of the first sandbox of each kind."""

    def get(self, kind: str, usual: Any = None) -> Any:
        return self.pop(kind, usual)


def test_a_sandbox_that_ended_once_is_given_a_second_chance(gated: MakeGated) -> None:
    docker = FakeDocker(by_class=Once(user="dies"))
    node = gated(docker)
    assert once_known(node) == {"user": PASS, "admin": PASS}
    assert docker.starts == 3


def test_a_pre_warmed_sandbox_is_tested_in_its_assigned_state(gated: MakeGated) -> None:
    node = gated(FakeDocker(by_class={"spare": "leaks"}), prewarmed=1)
    assert once_known(node) == {"user": FAIL, "admin": PASS}
    result = next(one for one in node.status().self_tests if one.trust_class == "user")
    assert result.faults["syscall-mount"] == "pre-warmed: the kernel did it"


def test_without_pre_warmed_sandboxes_the_other_tests_count(gated: MakeGated) -> None:
    node = gated(FakeDocker(by_class={"spare": "leaks"}, mount_fails=True), prewarmed=1)
    assert once_known(node) == {"user": PASS, "admin": PASS}
