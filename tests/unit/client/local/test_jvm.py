"""Runs in a JVM, with a program instead of ``java``; a real one is in the functional tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from storlet_client.builder import jars
from storlet_client.builder.project import Project, ProjectError
from storlet_client.local import jvm
from storlet_client.local.run import Input, Outcome

DOCUMENT = {
    "name": "grape", "version": "1", "language": "java", "main": "Grape",
    "parameters": {"text": {"type": "string", "default": "x"}},
}  # fmt: skip
#: Answers with its own request as metadata.
JAVA = f"""#!{sys.executable}
import sys
*options, asked, ended = sys.argv[1:]
texts = open(asked).read().split("\\0")
pairs = dict(zip(texts[::2], texts[1::2]))
open(pairs["log"], "w").write(" ".join(options) + "\\n")
print("output", flush=True)
code = pairs["parameter.text"]
if code == "exit":
    sys.exit(7)
ended_pairs = {{"code": code, "message": "m"}}
ended_pairs.update({{"metadata." + key: text for key, text in pairs.items()}})
if "output.1" in pairs:
    open(pairs["output.1"], "w").write("further")
    ended_pairs["further.1.colour"] = "blue"
open(ended, "w").write("".join(f"{{k}}\\0{{v}}\\0" for k, v in ended_pairs.items()))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    program = tmp_path / "bin/java"
    program.parent.mkdir()
    program.write_text(JAVA)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(jars, "runtime", lambda *_: ["API"])
    return Project(tmp_path, DOCUMENT)


def run(project: Project, text: str, tell: jvm.Tell | None = None) -> tuple[Outcome, bytes]:
    source = project.folder / "in"
    source.write_bytes(b"x")
    with (project.folder / "out").open("w+b") as output:
        inputs = [Input(source, {"colour": "red"})]
        outcome = jvm.run(project, inputs, output.fileno(), {"text": text}, tell)
        return outcome, (project.folder / "out").read_bytes()


def test_a_run_has_the_code_the_files_and_the_parameters(project: Project) -> None:
    outcome, output = run(project, "ok")
    assert (outcome.is_ok, output) == (True, b"output\n")
    asked = outcome.metadata
    assert (asked["main"], asked["parameter.text"]) == ("Grape", "ok")
    assert (asked["input.0"], asked["metadata.0.colour"]) == (str(project.folder / "in"), "red")
    assert asked["parameter.storlet_execution_path"] == str(project.folder / "src")
    assert f"-cp API:{project.folder}/src/* org.openstack.storlet.local.LocalRun" in outcome.log
    assert "jdwp" not in outcome.log


def test_a_run_has_its_secrets(project: Project) -> None:
    source = Input(project.folder / "in")
    source.path.write_bytes(b"x")
    with (project.folder / "out").open("wb") as output:
        given = ([source], output.fileno(), {"text": "ok"}, None, ())
        outcome = jvm.run(project, *given, {"mac-key": b"\0value"})
    assert outcome.metadata["secret.mac-key"] == "AHZhbHVl"


def test_a_storlet_that_seeks_is_known(project: Project) -> None:
    assert "seekable" not in run(project, "ok")[0].metadata
    project = Project(project.folder, {**DOCUMENT, "input": "seekable"})
    assert run(project, "ok")[0].metadata["seekable"] == "true"


def test_further_outputs_are_files(project: Project) -> None:
    project = Project(project.folder, {**DOCUMENT, "outputs": {"count": 2}})
    further, source = project.folder / "one", Input(project.folder / "in")
    source.path.write_bytes(b"x")
    with (project.folder / "out").open("wb") as output:
        outcome = jvm.run(project, [source], output.fileno(), {"text": "ok"}, None, [further])
    assert further.read_text() == "further"
    assert outcome.further_metadata == [{"colour": "blue"}]
    with pytest.raises(ProjectError, match="1 outputs: the storlet makes 2"):
        run(project, "ok")


def test_metadata_that_a_cluster_refuses_is_refused_here(project: Project) -> None:
    source = project.folder / "in"
    source.write_bytes(b"x")
    with (project.folder / "out").open("wb") as output:
        inputs = [Input(source, {"colour": "red\nor blue"})]
        outcome = jvm.run(project, inputs, output.fileno(), {"text": "ok"})
    assert outcome.code == "storlet.failed"
    assert outcome.message == "the storlet's metadata has a control character"


def test_a_failure_and_the_end_of_the_process_are_distinguished(project: Project) -> None:
    assert run(project, "storlet.load")[0].code == "storlet.load"
    outcome, _ = run(project, "exit")
    assert outcome.code == "storlet.failed"
    assert outcome.message == "the storlet ended its process (exit status 7)"


def test_a_debugger_can_connect_from_this_machine_only(project: Project) -> None:
    told: list[str] = []
    outcome, _ = run(project, "ok", told.append)
    assert told[0].startswith("127.0.0.1:")
    assert f"suspend=y,quiet=y,address={told[0]}" in outcome.log


def test_a_parameter_that_does_not_fit_is_refused(project: Project) -> None:
    with pytest.raises(ProjectError, match="unknown"):
        jvm.run(project, [Input(project.folder / "in")], 1, {"txt": "a"})
