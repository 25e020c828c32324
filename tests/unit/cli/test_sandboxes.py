"""``storlet sandboxes``: output and exit status, on a node with a Docker double of child
processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.cli import __main__ as command_line
from storlet_middleware.cli import node as cli_node
from storlet_middleware.sandboxd.self_test.gate import Gate
from tests.unit.sandboxd.doubles import FakeDocker, FakeNode, until, work

V1 = "1" * 64
Output = pytest.CaptureFixture[str]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    """A node with a gate; ``<tmp_path>/storlet.conf`` is its configuration."""
    made = FakeNode(FakeDocker())
    made.gate = Gate
    made.start()
    conf = f"[sandbox]\nrun_dir={made.home}/run\nnode_id=unit\ngroup=nobodys\naccept_failures=limit-memory\n"
    (tmp_path / "storlet.conf").write_text(conf)
    yield made
    made.remove()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., int]:
    return lambda *words: command_line.main(
        ["sandboxes", "--conf", str(tmp_path / "storlet.conf"), *words]
    )


def known(node: FakeNode) -> None:
    until(lambda: all(result.state != "untested" for result in node.status().self_tests), 10)


def test_a_node_without_sandboxes_is_reported(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    known(node)
    assert run() == 0
    shown = capsys.readouterr().out
    assert "node unit: no sandboxes; the first request for a storlet starts one" in shown
    assert "class user: pass (5 tests, " in shown


def test_sandboxes_and_what_runs_in_them_are_listed(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    path = node.load("AUTH_a", V1, name="up.py").socket
    with work(path):
        assert run() == 0
    rows = [
        line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("AUTH_a ")
    ]
    assert rows[0][1:3] == ["user", "running"]
    assert rows[1][1:4] == ["up.py", "1", "1"], "one worker, and it is busy"


def test_names_of_tenants_cannot_steer_the_terminal(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    node.load("AUTH_a", V1, name="up\u202e.py")
    run()
    shown = capsys.readouterr().out
    assert "\u202e" not in shown
    assert "up\\u202e.py" in shown


def test_the_status_has_the_same_content_as_json(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    node.load("AUTH_a", V1)
    known(node)
    assert run("--json") == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    (sandbox,) = shown["sandboxes"]
    assert (sandbox["account"], sandbox["trust_class"], sandbox["state"]) == (
        "AUTH_a",
        "user",
        "running",
    )
    assert sandbox["storlets"][0]["name"] == "up.py"
    assert (sandbox["running"], sandbox["waiting"]) == (0, 0)
    assert shown["node"] == "unit"
    assert shown["self_tests"]["user"]["state"] == "pass"
    assert set(shown["self_tests"]) == {"user", "admin"}


def test_a_check_shows_every_test_and_what_it_is_against(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    assert run("--check") == 0
    captured = capsys.readouterr()
    assert "testing a sandbox of each trust class ..." in captured.err
    assert captured.out.count("pass      syscall-mount ") == 2
    assert "hiding and replacing files, mounting the host's disks" in captured.out


def test_a_closed_class_is_exit_code_1_and_named(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    known(node)
    node.docker.behaviour = "leaks"
    assert run("--check") == 1
    shown = capsys.readouterr().out
    assert "class user: CLOSED on this node (5 tests, 1 failed, " in shown
    assert "FAIL      syscall-mount" in shown
    assert "-> the kernel did it" in shown
    assert run("--json") == 1
    assert json.loads(capsys.readouterr().out)["self_tests"]["user"]["failed"] == {
        "syscall-mount": "the kernel did it"
    }


def test_a_check_that_cannot_run_shows_the_reason(
    node: FakeNode, run: Callable[..., int], capsys: Output
) -> None:
    known(node)
    node.docker.image = None
    assert run("--check") == 3
    assert "is not on this node" in capsys.readouterr().err


def test_without_sandboxd_the_socket_and_the_way_to_start_it_are_named(
    tmp_path: Path, run: Callable[..., int], capsys: Output
) -> None:
    (tmp_path / "storlet.conf").write_text(f"[sandbox]\nrun_dir={tmp_path}\n")
    assert run() == 3
    said = capsys.readouterr().err
    assert f"{tmp_path}/sandboxd.sock" in said
    assert f"storlet-sandboxd --conf {tmp_path}/storlet.conf" in said


def test_without_a_configuration_the_option_for_it_is_named(
    run: Callable[..., int], capsys: Output
) -> None:
    assert run() == 3
    assert "--conf FILE" in capsys.readouterr().err


def test_help_has_the_exit_codes(capsys: Output) -> None:
    for words in (["--help"], ["sandboxes", "--help"]):
        with pytest.raises(SystemExit):
            command_line.main(words)
        assert "exit codes:" in capsys.readouterr().out


def test_the_command_needs_neither_swift_nor_docker() -> None:
    code = "import sys, storlet_middleware.cli.__main__; print(sorted({'swift', 'docker', 'eventlet'} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "."}
    )
    assert done.stdout.strip() == "[]"


def test_a_status_that_was_cut_says_so(
    node: FakeNode, run: Callable[..., int], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = messages.Sandbox("AUTH_a", "k", "running")
    status = messages.NodeStatus([sandbox], {"cut": "some storlets are left out"})
    monkeypatch.setattr(cli_node, "ask", lambda *_: status)
    assert run() == 0
    assert "\n\nsome storlets are left out\n" in capsys.readouterr().out
