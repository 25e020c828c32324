"""A Swift server with a ``swift.conf`` of its own."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from swift.common import constraints, storage_policy, utils

from storlet_middleware.aio import serve


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The steps of a start; the state of Swift's modules and the arguments are restored."""
    made: list[object] = []

    def step(name: str) -> None:
        made.append((name, utils.SWIFT_CONF_FILE))

    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(utils, "SWIFT_CONF_FILE", utils.SWIFT_CONF_FILE)
    monkeypatch.setattr(constraints, "reload_constraints", lambda: step("constraints"))
    monkeypatch.setattr(storage_policy, "reload_storage_policies", lambda: step("policies"))
    return made


def script(
    steps: list[object], name: str, code: int | None, group: str = "console_scripts"
) -> object:
    def run() -> int | None:
        steps.append(sys.argv)
        return code

    return SimpleNamespace(name=name, group=group, load=lambda: run)


@pytest.mark.parametrize(("code", "status"), [(None, 0), (0, 0), (3, 3)])
def test_the_command_runs_after_its_configuration_was_read(
    steps: list[object], monkeypatch: pytest.MonkeyPatch, code: int | None, status: int
) -> None:
    entry_points = [
        script(steps, "swift-proxy-server", 9),
        script(steps, "swift-object-server", 9, group="paste.app_factory"),
        script(steps, "swift-object-server", code),
    ]
    found = SimpleNamespace(entry_points=entry_points)
    monkeypatch.setattr(serve, "distribution", lambda _name: found)
    assert serve.main(["serve", "/etc/one", "swift-object-server", "one.conf", "-v"]) == status
    assert steps == [
        ("constraints", "/etc/one/swift.conf"),
        ("policies", "/etc/one/swift.conf"),
        ["swift-object-server", "one.conf", "-v"],
    ]


@pytest.mark.parametrize("kind", ["proxy", "account", "container", "object"])
def test_swift_has_the_servers_that_a_cluster_starts(kind: str) -> None:
    found = serve.distribution("swift").entry_points
    scripts = {one.name for one in found if one.group == "console_scripts"}
    assert f"swift-{kind}-server" in scripts
