from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from storlet_middleware.local import node as nodes
from storlet_middleware.local.node import CONF_VARIABLE, Unavailable
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import Container
from storlet_middleware.sandboxd.errors import EngineUnavailable, ImageMissing


class Engine:
    """Docker, with the containers of one node."""

    fault: Exception | None = None
    containers: ClassVar[Mapping[str, str]] = {}
    removed: ClassVar[list[str]] = []

    def __init__(self, url: str) -> None:
        self.url = url

    def host(self) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        return {"MemoryLimit": True, "SwapLimit": False, "PidsLimit": True}

    def image_id(self, image: str) -> str:
        return "sha256:0"

    def ours(self, node_id: str) -> list[Container]:
        return [
            Container(each, each, {}, True, "", 0.0)
            for each, owner in self.containers.items()
            if owner == node_id
        ]

    def remove(self, container: str) -> None:
        self.removed.append(container)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(nodes, "Engine", Engine)
    monkeypatch.setattr(Engine, "removed", [])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    # They belong to root in a real node, and here to the user that runs the tests.
    monkeypatch.setattr(
        nodes, "NodePaths", lambda run, state, *_: NodePaths(run, state, os.getuid(), os.getgid())
    )
    options = tmp_path / "options"
    options.write_text(
        f"[sandbox]\nrun_dir = {tmp_path}/run\nstate_dir = {tmp_path}/state\nnode_id = here\n"
        "image = mine\n[limits]\nmemory_bytes = 256M\n"
    )
    return {CONF_VARIABLE: str(options)}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(Unavailable) as caught, nodes.taken(environ):
        pass
    return str(caught.value)


def test_a_node_has_options_of_its_own(environ: dict[str, str], tmp_path: Path) -> None:
    with nodes.taken(environ) as node:
        config = node.home.config
        assert config.sandbox.run_dir == f"{tmp_path}/run-local/0"
        assert config.sandbox.node_id == "here-local-0"
        assert config.sandbox.image == "mine"
        assert config.limits.memory_bytes == 256 << 20
        assert "limit-memory" in config.sandbox.accept_failures
        assert node.home.options_file.exists()
        node.remove()
    assert sorted(each.name for each in (tmp_path / "run-local").iterdir()) == ["0.lock"]


def test_two_runs_at_a_time_have_two_nodes(environ: dict[str, str]) -> None:
    with nodes.taken(environ) as one, nodes.taken(environ) as other:
        assert one.home.run_dir != other.home.run_dir
        other.remove()
        one.remove()


def test_leftovers_of_killed_owners_are_removed(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {"a": "here-local-0", "b": "here-local-1", "c": "here", "d": "here-local-9"}
    monkeypatch.setattr(Engine, "containers", left)
    with nodes.taken(environ) as one:
        assert Engine.removed == []
        Path(f"{one.home.run_dir.parent}/1").mkdir()
    # Neither node was removed, as if their owners had been killed.
    with nodes.taken(environ) as again:
        assert again.home.run_dir == one.home.run_dir
        assert sorted(Engine.removed) == ["a", "b"]
        again.remove()


def test_the_reason_and_the_remedy_are_named(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "fault", EngineUnavailable("refused"))
    assert "systemctl start docker" in refusal(environ)
    monkeypatch.setattr(Engine, "fault", ImageMissing("none"))
    assert "the sandbox image mine is missing: 'make up'" in refusal(environ)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "sudo" in refusal(environ)


def test_wrong_options_are_named(environ: dict[str, str]) -> None:
    options = Path(environ[CONF_VARIABLE])
    options.write_text("[sandbox]\nimag = mine\n")
    assert "did you mean image?" in refusal(environ)
    options.unlink()
    assert f"{CONF_VARIABLE}: {options}: cannot be read" in refusal(environ)


def test_without_a_file_the_defaults_of_a_node_hold(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "fault", ImageMissing("none"))
    assert "storlets/sandbox:latest" in refusal({})


def test_a_child_ends_with_its_parent_or_when_it_is_stopped() -> None:
    process = nodes.child("this", stdout=subprocess.DEVNULL)
    nodes.stop(process)
    assert process.returncode in (0, -signal.SIGTERM)
