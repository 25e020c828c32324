"""One sandbox from its start: its container, its name, its comparison with the plan."""

from __future__ import annotations

import pytest

from storlet_daemon.protocol import messages
from tests.unit.sandboxd.doubles import FakeNode, greeting, loaded, refused, until


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
