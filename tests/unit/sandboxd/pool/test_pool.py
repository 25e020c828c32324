"""Sandboxes from start to end, as a filter sees them."""

from __future__ import annotations

from storlet_daemon.protocol import messages
from storlet_middleware.keys import tenant_key
from tests.unit.sandboxd.doubles import FakeNode, greeting, loaded, until

V1, V2 = "1" * 64, "2" * 64


def test_a_load_returns_a_served_socket(node: FakeNode) -> None:
    assert greeting(loaded(node.load(version=V1)))[0] == V1


def test_prepare_creates_the_code_directory_and_starts_the_sandbox(node: FakeNode) -> None:
    answer = node.ask(messages.Prepare("AUTH_a", "up.py"))
    assert answer.code_dir == f"{node.home}/state/code/{tenant_key('AUTH_a')}"
    until(lambda: node.docker.starts == 1)


def test_tenants_have_sandboxes_uids_and_directories_of_their_own(node: FakeNode) -> None:
    long = "AUTH_" + 60 * "x"
    paths = {loaded(node.load(long + "1")), loaded(node.load(long + "2"))}
    assert len(paths) == 2
    sandboxes = node.status().sandboxes
    assert len({s.uid for s in sandboxes}) == 2
    assert {s.state for s in sandboxes} == {"running"}


def test_a_warm_load_needs_no_docker(node: FakeNode) -> None:
    path = loaded(node.load())
    node.docker.is_down = True
    assert loaded(node.load()) == path


def test_status_works_without_docker_and_names_the_image(node: FakeNode) -> None:
    assert node.status().images == {"storlets/sandbox:latest": {"id": "sha256:one"}}
    node.docker.is_down = True
    assert node.status().images["storlets/sandbox:latest"]["id"] is None
