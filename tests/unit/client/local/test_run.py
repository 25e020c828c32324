"""One run of a project's storlet in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from storlet_client.builder.project import Project, ProjectError
from storlet_client.local.run import Input, Outcome, run
from tests.unit.client.local.conftest import with_code


def outcome_of(
    project: Project, tmp_path: Path, parameters: Mapping[str, str] | None = None
) -> tuple[Outcome, bytes]:
    output = tmp_path / "output"
    source = Input(project.folder / "sample.txt", {"colour": "red"})
    fd = os.open(output, os.O_WRONLY | os.O_CREAT)
    outcome = run(project, [source], fd, parameters or {})
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    return outcome, output.read_bytes()


def test_a_run_gives_output_metadata_and_log(project: Project, tmp_path: Path) -> None:
    outcome, output = outcome_of(project, tmp_path, {"text": "apple"})
    assert output == b"one apple\nthree apples\n"
    assert outcome.is_ok
    assert outcome.metadata == {"colour": "red"}
    assert outcome.log == "fruit.Fruit DEBUG: kept 2 lines\n"


def test_a_storlet_that_seeks_gets_the_file(project: Project, tmp_path: Path) -> None:
    body = "in_files[0].seek(-5, 2)\nout_files[0].write(in_files[0].read())"
    outcome, _ = outcome_of(with_code(project, body), tmp_path)
    assert "declare X-Object-Meta-Storlet-Input: seekable" in outcome.message
    seekable = Project(project.folder, {**project.document, "input": "seekable"})
    outcome, output = outcome_of(seekable, tmp_path)
    assert (outcome.is_ok, output) == (True, (project.folder / "sample.txt").read_bytes()[-5:])


def test_a_storlet_may_have_several_outputs(project: Project, tmp_path: Path) -> None:
    body = (
        "for number, output in enumerate(out_files):\n"
        "    output.set_metadata({'number': number})\n"
        "    output.write(b'%d of %d' % (number, len(out_files)))"
    )
    made = with_code(project, body)
    made = Project(made.folder, {**made.document, "outputs": {"count": 2, "max": 3}})
    source, further = Input(project.folder / "sample.txt"), [tmp_path / "one", tmp_path / "two"]
    with (tmp_path / "first").open("wb") as first:
        outcome = run(made, [source], os.dup(first.fileno()), {}, further)
    assert outcome.is_ok, outcome
    assert (tmp_path / "first").read_bytes() == b"0 of 3"
    assert [path.read_bytes() for path in further] == [b"1 of 3", b"2 of 3"]
    assert outcome.metadata == {"number": "0"}
    assert list(outcome.further_metadata) == [{"number": "1"}, {"number": "2"}]
    with pytest.raises(ProjectError, match="1 outputs: the storlet makes 2 to 3"):
        run(made, [source], os.open(os.devnull, os.O_WRONLY), {})


def test_a_missing_parameter_has_its_default(project: Project, tmp_path: Path) -> None:
    _, output = outcome_of(project, tmp_path)
    assert output == (project.folder / "sample.txt").read_bytes()


def test_all_faults_of_a_request_are_named(project: Project, tmp_path: Path) -> None:
    fd = os.open(os.devnull, os.O_WRONLY)
    with pytest.raises(ProjectError) as caught:
        run(project, [], fd, {"txt": "apple"})
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert len(caught.value.faults) == 2
    assert "did you mean text?" in caught.value.faults[0]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("raise ValueError('on purpose')", "storlet.failed", "ValueError: on purpose"),
        ("sys.exit(3)", "storlet.failed", "storlet exited with code 3 before it was done"),
        (
            "out_files[0].set_metadata({'a': 'x' * 5000})",
            "storlet.limit.metadata",
            "MetadataTooLargeError: the metadata has 5008 bytes, more than 4096",
        ),
    ],
)
def test_a_failure_has_the_code_and_the_text_of_a_cluster(
    project: Project, tmp_path: Path, body: str, code: str, message: str
) -> None:
    outcome, output = outcome_of(with_code(project, body), tmp_path)
    assert (outcome.code, outcome.message) == (code, message)
    assert "fruit.py" in outcome.traceback
    assert "local/run.py" not in outcome.traceback
    assert output == b""


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("{'a': 'b\\nc'}", "the storlet's metadata has a control character"),
        ("{'a:b': 'c'}", "the storlet's metadata has a key that no header can have: 'a:b'"),
    ],
)
@pytest.mark.parametrize("end", ["", "out_files[0].write(b'x')", "out_files[0].close()"])
def test_metadata_that_a_cluster_refuses_is_refused_here(
    project: Project, tmp_path: Path, metadata: str, message: str, end: str
) -> None:
    body = f"try:\n    out_files[0].set_metadata({metadata})\nexcept Exception:\n    pass\n{end}"
    outcome, output = outcome_of(with_code(project, body), tmp_path)
    assert (outcome.code, outcome.message, output) == ("storlet.failed", message, b"")
    assert (outcome.metadata, "set_metadata" in outcome.traceback) == ({}, True)
    assert "local/run.py" not in outcome.traceback


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named"),
        ("class Other: pass\n", "LoadError: module fruit has no class Fruit"),
    ],
)
def test_code_that_does_not_load_is_named(
    project: Project, tmp_path: Path, text: str, message: str
) -> None:
    (project.folder / "src/fruit.py").write_text(text)
    outcome, _ = outcome_of(project, tmp_path)
    assert outcome.code == "storlet.load"
    assert outcome.message.startswith(message)


def test_a_library_that_is_missing_here_is_named_with_its_remedy(
    project: Project, tmp_path: Path
) -> None:
    (project.folder / "src/fruit.py").write_text("import nothing_of_that_name\n")
    wanted = Project(project.folder, {**project.document, "requirements": ["nothing>=2", "more"]})
    outcome, _ = outcome_of(wanted, tmp_path)
    assert outcome.message.endswith(
        "; without a sandbox, libraries are those of this Python: pip install 'nothing>=2' more"
    )


def test_each_run_imports_the_source_again(project: Project, tmp_path: Path) -> None:
    path = list(sys.path)
    first, _ = outcome_of(project, tmp_path)
    second, _ = outcome_of(with_code(project, "raise ValueError"), tmp_path)
    assert (first.code, second.code) == ("ok", "storlet.failed")
    assert "fruit" not in sys.modules
    assert sys.path == path


def test_a_project_of_another_language_is_refused(project: Project) -> None:
    java = Project(project.folder, {**project.document, "language": "java"})
    with pytest.raises(ProjectError, match="runs in a JVM only"):
        run(java, [], os.open(os.devnull, os.O_WRONLY), {})


def test_an_input_that_cannot_be_opened_leaves_no_descriptor(
    project: Project, tmp_path: Path
) -> None:
    project = Project(project.folder, {**project.document, "inputs": {"max": 2}})
    before = len(list(Path("/proc/self/fd").iterdir()))
    inputs = [Input(project.folder / "sample.txt"), Input(tmp_path / "missing")]
    with pytest.raises(FileNotFoundError, match="missing"):
        run(project, inputs, os.open(os.devnull, os.O_WRONLY), {})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("declared", "refused", "wanted"),
    [
        ({}, 2, "2 inputs: the storlet takes 1 (inputs"),
        ({"min": 2}, 1, "1 inputs: the storlet takes 2 (inputs"),
        ({"min": 2}, 3, "3 inputs: the storlet takes 2 (inputs"),
        ({"max": 2}, 3, "3 inputs: the storlet takes 1 to 2 (inputs"),
    ],
)
def test_a_number_of_inputs_that_a_cluster_refuses_is_refused_here(
    project: Project, declared: Mapping[str, int], refused: int, wanted: str
) -> None:
    project = Project(project.folder, {**project.document, "inputs": declared})
    inputs = [Input(project.folder / "sample.txt")] * refused
    with pytest.raises(ProjectError) as caught:
        run(project, inputs, os.open(os.devnull, os.O_WRONLY), {})
    assert [wanted in fault for fault in caught.value.faults] == [True]


def test_a_declared_number_of_inputs_runs(project: Project) -> None:
    project = Project(project.folder, {**project.document, "inputs": {"max": 2}})
    for count in (1, 2):
        inputs = [Input(project.folder / "sample.txt")] * count
        assert run(project, inputs, os.open(os.devnull, os.O_WRONLY), {}).is_ok


def test_a_debugger_that_the_user_quits_is_no_failure(project: Project, tmp_path: Path) -> None:
    for body in ("import bdb; raise bdb.BdbQuit", "from pdb import bdb; raise bdb.BdbQuit()"):
        with pytest.raises(KeyboardInterrupt):
            outcome_of(with_code(project, body), tmp_path)
    (project.folder / "src/fruit.py").write_text("import bdb\nraise bdb.BdbQuit\n")
    with pytest.raises(KeyboardInterrupt):
        outcome_of(project, tmp_path)
