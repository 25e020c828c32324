"""Runs in sandboxes, with a program instead of ``storlet-local``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from storlet_client.errors import ConfigurationError, StorletsError
from storlet_client.local import sandbox
from storlet_client.local.run import Input
from storlet_client.local.sandbox import LocalNode

#: Answers with its request as the log; writes a line of output.
ECHO = """
import json, os, sys
with os.fdopen(int(sys.argv[2]), "wb", 0) as report:
    for line in sys.stdin.buffer:
        print("output", flush=True)
        report.write(json.dumps({"code": "ok", "log": line.decode(), "usage": "in=1"}).encode() + b"\\n")
"""
FAULT = """
import os, sys
os.write(int(sys.argv[2]), b'{"fault": "no Docker"}\\n')
"""


def use(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sandbox, "command", lambda: [sys.executable, "-c", program])


def test_requests_are_answered_and_output_comes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, ECHO)
    source = tmp_path / "in"
    source.write_bytes(b"x")
    with (tmp_path / "out").open("w+b") as output:
        with LocalNode(output.fileno()) as node:
            outcome = node.run(tmp_path / "b", [Input(source, {"k": "v"})], {"p": "1"})
            assert node.load(tmp_path / "b").is_ok
        output.seek(0)
        assert output.read() == b"output\n" * 2
    assert outcome.is_ok
    assert '"metadata": {"k": "v"}' in outcome.log
    assert str(source) in outcome.log
    unknown = [name for name in ("outputs", "secrets") if name in outcome.log]
    assert unknown == [], "an older storlet-local does not know it"


def test_files_for_further_outputs_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, ECHO)
    source, further = tmp_path / "in", tmp_path / "further"
    source.write_bytes(b"x")
    with LocalNode(2) as node:
        secrets = {"key": b"\0value"}
        log = node.run(tmp_path / "b", [Input(source)], {}, further=[further], secrets=secrets).log
    assert f'"outputs": ["{further}"]' in log
    assert '"secrets": {"key": "AHZhbHVl"}' in log


def test_a_file_that_every_user_may_write_is_given_as_a_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A storlet could open the descriptor of the file itself once more, for writing."""
    use(monkeypatch, ECHO)
    source = tmp_path / "in"
    source.write_bytes(b"x")
    source.chmod(0o666)
    with LocalNode(2) as node:
        log = node.run(tmp_path / "b", [Input(source)], {}).log
    assert str(source) not in log


def test_a_pipe_is_given_as_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, ECHO)
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    with LocalNode(2) as node:
        log = node.run(tmp_path / "b", [Input(Path(f"/dev/fd/{reader}"))], {}).log
    os.close(reader)
    assert "/dev/fd" not in log


def test_the_reason_why_there_is_no_sandbox_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, FAULT)
    with LocalNode(2) as node, pytest.raises(ConfigurationError, match="no Docker") as caught:
        node.load(tmp_path)
    assert "or leave the sandbox out: --no-sandbox" in str(caught.value)
    # A command without this option has another alternative.
    with LocalNode(2, "ask the cluster") as node, pytest.raises(ConfigurationError) as caught:
        node.load(tmp_path)
    assert str(caught.value) == "no Docker\n  or ask the cluster"


def test_a_program_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, "raise SystemExit(7)")
    with LocalNode(2) as node, pytest.raises(StorletsError, match="exit status 7"):
        node.load(tmp_path)


def test_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "command", list)
    with pytest.raises(ConfigurationError, match=r"install swift-storlets.*--no-sandbox"):
        LocalNode(1)


def test_the_program_is_found_beside_or_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert sandbox.command()[-1] == "storlet_middleware.local"
    monkeypatch.setattr(sandbox.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.command() == []
    program = tmp_path / "storlet-local"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert sandbox.command() == [str(program)]
