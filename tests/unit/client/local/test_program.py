"""One run of a native program here: the same descriptors, variables and errors as in a sandbox."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from storlet_client.builder import project as projects
from storlet_client.builder.project import ProjectError
from storlet_client.local import program
from storlet_client.local.run import Input, Outcome, run

TOML = """\
name = "fruit"
version = "1"
language = "native"
main = "fruit.sh"
files = ["fruit.sh"]
arguments = ["two words"]

[parameters.text]
type = "string"
default = "none"

[inputs]
min = 1
max = 2
"""


def project_of(folder: Path, script: str) -> projects.Project:
    (folder / "storlet.toml").write_text(TOML)
    (folder / "fruit.sh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "fruit.sh").chmod(0o755)
    (folder / "in").write_text("input")
    return projects.read(folder)


def outcome_of(
    folder: Path, script: str, parameters: Mapping[str, str] | None = None, count: int = 1
) -> tuple[Outcome, str]:
    made = project_of(folder, script)
    fd = os.open(folder / "out", os.O_WRONLY | os.O_CREAT)
    inputs = [Input(folder / "in", {"colour": "red"})] * count
    outcome = run(made, inputs, fd, parameters or {})
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    return outcome, (folder / "out").read_text()


def test_a_program_gets_arguments_parameters_and_inputs(tmp_path: Path) -> None:
    script = (
        'echo "$1 $STORLET_PARAM_text"; cat; cat <&3; echo; echo "$STORLET_INPUTS"; echo "log" >&2'
    )
    outcome, output = outcome_of(tmp_path, script, {"text": "apple"}, count=2)
    first, contents, inputs = output.splitlines()
    assert (first, contents) == ("two words apple", "inputinput")
    assert [each["fd"] for each in json.loads(inputs)] == [0, 3]
    assert (outcome.is_ok, outcome.log) == (True, "log\n")


def test_a_secret_is_read_from_its_descriptor(tmp_path: Path) -> None:
    script = 'eval "exec 9<&$STORLET_SECRET_FD_MAC_KEY"; cat <&9; env | grep -c a-value'
    made = project_of(tmp_path, script + " || true")
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    secrets = {"other": b"b" * 4096, "mac-key": b"a-value\n"}
    assert run(made, [Input(tmp_path / "in")], fd, {}, secrets=secrets).is_ok
    assert (tmp_path / "out").read_text() == "a-value\n0\n"


def test_metadata_is_written_to_its_descriptor(tmp_path: Path) -> None:
    script = 'eval "exec 9>&$STORLET_METADATA_FD"; echo \'{"a": "b", "n": 1, "no": null}\' >&9'
    outcome, _ = outcome_of(tmp_path, script)
    assert outcome.metadata == {"a": "b", "n": "1"}


def test_further_outputs_come_after_further_inputs(tmp_path: Path) -> None:
    script = (
        'echo "$STORLET_OUTPUTS"; echo one >&4; echo two >&5;'
        ' eval "exec 9>&$STORLET_METADATA_FD"; echo \'{"a": "b"}\' >&9'
    )
    made = project_of(tmp_path, script)
    made = projects.Project(made.folder, {**made.document, "outputs": {"count": 3}})
    further = [tmp_path / "one", tmp_path / "two"]
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    outcome = run(made, [Input(tmp_path / "in")] * 2, fd, {}, further)
    assert outcome.is_ok, outcome
    assert outcome.metadata == {"a": "b"}
    assert json.loads((tmp_path / "out").read_text()) == [{"fd": 1}, {"fd": 4}, {"fd": 5}]
    assert [path.read_text() for path in further] == ["one\n", "two\n"]
    with pytest.raises(ProjectError, match="1 outputs: the storlet makes 3"):
        run(made, [Input(tmp_path / "in")], os.open(os.devnull, os.O_WRONLY), {})


def test_a_process_that_is_left_does_not_delay_the_end(tmp_path: Path) -> None:
    outcome, _ = outcome_of(tmp_path, "sleep 30 & echo $! >&2")
    os.kill(int(outcome.log), signal.SIGKILL)  # it is still there
    assert outcome.is_ok


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("echo why >&2; exit 3", "storlet.failed", "the program exited with status 3: why"),
        ("kill -9 $$", "storlet.failed", "the program was killed by signal 9 (SIGKILL)"),
        ('eval "echo x >&$STORLET_METADATA_FD"', "storlet.failed", "the metadata is not a JSON"),
        (
            'eval "exec 9>&$STORLET_METADATA_FD"; head -c 5000 /dev/zero | tr "\\0" 1 >&9',
            "storlet.limit.metadata",
            "the metadata has 5000 bytes, more than 4096",
        ),
        (
            'eval "exec 9>&$STORLET_METADATA_FD"; head -c 100000 /dev/zero | tr "\\0" 1 >&9',
            "storlet.limit.metadata",
            "the metadata has ",
        ),
        (
            'eval "exec 9>&$STORLET_METADATA_FD"; echo "[1]" >&9',
            "storlet.failed",
            "the metadata is not a JSON object: another value",
        ),
        (
            'eval "exec 9>&$STORLET_METADATA_FD"; printf %s "{\\"a\\": \\"b\\\\nc\\"}" >&9',
            "storlet.failed",
            "the storlet's metadata has a control character",
        ),
    ],
)
def test_a_failure_has_its_code(tmp_path: Path, script: str, code: str, message: str) -> None:
    outcome, _ = outcome_of(tmp_path, script)
    assert (outcome.code, outcome.message[: len(message)]) == (code, message)


def test_a_program_that_cannot_be_started_is_a_load_error(tmp_path: Path) -> None:
    made = project_of(tmp_path, "")
    (tmp_path / "fruit.sh").chmod(0o644)
    outcome = run(made, [Input(tmp_path / "in")], os.open(os.devnull, os.O_WRONLY), {})
    assert outcome.code == "storlet.load"
    assert outcome.message == "fruit.sh cannot be started: Permission denied"


def test_a_shared_object_needs_a_sandbox(tmp_path: Path) -> None:
    made = project_of(tmp_path, "")
    changed = {**made.document, "main": "fruit.sh:run"}
    other = projects.Project(made.folder, changed)
    with pytest.raises(ProjectError, match="a shared object runs in a sandbox only"):
        run(other, [Input(tmp_path / "in")], os.open(os.devnull, os.O_WRONLY), {})


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        program.run(Path("/bin/true"), (), [(tmp_path / "absent", {})], [1], {})
