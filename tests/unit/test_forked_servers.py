"""Which servers are forks, and how a fork is used and shown; with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forked_servers
from tests.support.cluster import CHECKOUT
from tests.support.forked_servers import KEEPER, SERVE, Forked, Parent, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "swift"),
        ("[swift-hash]\nswift_hash_path_suffix = a\n[swift-constraints]\n", "swift"),
        ("[swift-constraints]\ncontainer_listing_limit = 3\n", ""),
    ],
)
def test_servers_with_their_own_modules_or_constraints_are_not_forked(
    tmp_path: Path, text: str, kind: str
) -> None:
    (tmp_path / "swift.conf").write_text(text)
    words = [str(tmp_path), "swift-proxy-server", "proxy-server.conf", "-v"]
    command = ["python3", "-m", SERVE, *words]
    assert kind_of(command, {"PATH": "/"}) == kind
    assert kind_of(command, {"PYTHONPATH": str(CHECKOUT)}) == kind
    assert not kind_of(command, {"PYTHONPATH": "/"})
    assert not kind_of(["python3", "-m", "storlet_middleware.aio", *words], {})


def test_sandboxd_and_its_keeper_are_not_forks_of_the_parent_of_swift() -> None:
    assert kind_of(["/a/python3", "/a/bin/storlet-sandboxd", "--conf", "b"], {}) == "node"
    assert kind_of(["/a/python3", *KEEPER], {}) == "node"


def test_other_commands_start_as_usual(tmp_path: Path) -> None:
    process = Parent(tmp_path, os.getpid()).popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert isinstance(process, subprocess.Popen)
    assert process.wait(10) == 3
    assert not [*tmp_path.iterdir()]


def test_a_parent_that_cannot_import_a_server_is_an_error(tmp_path: Path) -> None:
    """This Python has no packages."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    command = [str(python), "-m", SERVE, str(tmp_path), "swift-proxy-server", "a.conf"]
    # The modules of the session's own PYTHONPATH would be a reason to start it as usual.
    options = {"stderr": subprocess.STDOUT, "env": {}}
    with (tmp_path / "log").open("wb") as log, pytest.raises(ChildProcessError, match="has ended"):
        Parent(tmp_path, os.getpid()).popen(command, stdout=log, **options)
    assert [*tmp_path.glob("*.log")]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_is_used_as_a_process_of_subprocess(signum: signal.Signals) -> None:
    # It reads until a signal ends it, or the test.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        forked = Forked(process.pid)
        assert forked.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            forked.wait(0.01)
        if signum == signal.SIGTERM:
            forked.terminate()
        else:
            forked.send_signal(signum)
        assert forked.wait(10) == 0
        assert forked.poll() == 0
        forked.terminate()  # does nothing
        assert process.wait() == -signum


def test_a_command_and_an_environment_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """Each has the memory of the last exec, and no more."""
    code = f"""
import runpy, sys, os
show = runpy.run_path({forked_servers.__file__!r})["show"]
os.environ.clear()
show(["a", "b c"], {{"A": "1=2", "B": ""}})
print(open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0)))
print(open("/proc/self/environ").read().rstrip(chr(0)).split(chr(0)))
show(["a"], {{"A": "x" * 1000}})
"""
    done = subprocess.run([sys.executable, "-c", code], env={"SPACE": "x" * 99}, check=False)
    output, error = capfd.readouterr()
    assert output.splitlines() == ["['a', 'b c']", "['A=1=2', 'B=']"]
    assert done.returncode == 1
    assert "1003 bytes of 106" in error
