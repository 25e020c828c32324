"""The cases of ``storlet.toml``."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any, BinaryIO, cast
from xml.etree import ElementTree as ET

import pytest

from storlet_client.builder.project import Project, ProjectError
from storlet_client.local import cases
from storlet_client.local.run import Input, Outcome
from storlet_client.local.sandbox import LocalNode
from tests.unit.client.local.conftest import with_code

pytestmark = pytest.mark.usefixtures("forked_cases")


def with_case(project: Project, **values: Any) -> Project:
    case = {"name": "one", "input": "sample.txt", **values}
    return Project(project.folder, {**project.document, "tests": [case]})


def faults_of(project: Project) -> tuple[str, ...]:
    (result,) = run(project)
    return result.faults


def run(project: Project, selected: str = "") -> list[cases.Result]:
    return list(cases.results(project, selected, cases.InProcesses(project)))


def test_an_input_that_cannot_be_read_is_no_failure_of_the_storlet(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "sample.txt":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        run(with_case(project, output="expected.txt"))
    assert caught.value.filename == str(project.folder / "sample.txt")


def test_the_case_of_a_new_project_passes(project: Project) -> None:
    assert faults_of(project) == ()


def test_a_wrong_output_is_shown_as_a_difference(project: Project) -> None:
    (fault,) = faults_of(with_case(project, output="expected.txt"))
    assert "+two pears" in fault.splitlines()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\x00", "from byte 0 on"),
        (b"one\r\n", "from byte 3 on"),
        (b"one" + bytes(3000), "from byte 3 on"),
    ],
    ids=["binary", "ends of lines", "a long line"],
)
def test_binary_outputs_ends_of_lines_and_long_lines_are_compared_by_bytes(
    project: Project, content: bytes, expected: str
) -> None:
    (project.folder / "wanted").write_bytes(content)
    changed = with_code(project, "out_files[0].write(b'one\\n')")
    (fault,) = faults_of(with_case(changed, output="wanted"))
    assert expected in fault


def test_each_output_that_a_case_names_is_compared(project: Project) -> None:
    (project.folder / "one").write_bytes(b"1\n")
    (project.folder / "two").write_bytes(b"2\n")
    body = "for number, output in enumerate(out_files, 1):\n    output.write(b'%d\\n' % number)"
    made = with_code(project, body)
    with (made.folder / "storlet.toml").open("a") as file:
        file.write("\n[outputs]\ncount = 3\n")
    made = Project(made.folder, {**made.document, "outputs": {"count": 3}})
    assert faults_of(with_case(made)) == ()
    assert faults_of(with_case(made, output="one")) == ()
    assert faults_of(with_case(made, output=["one", "two"])) == ()
    (fault,) = faults_of(with_case(made, output=["one", "one"]))
    assert "+2" in fault.splitlines()
    with pytest.raises(ProjectError, match="there is no file three"):
        run(with_case(made, output=["one", "three"]))


def test_metadata_is_compared(project: Project) -> None:
    changed = with_code(project, "out_files[0].set_metadata({'a': 1, 'b': 2})")
    assert faults_of(with_case(changed, metadata={"a": "1"})) == ()
    (fault,) = faults_of(with_case(changed, metadata={"a": "2"}))
    assert fault == "metadata a: want '2', got '1'"


def test_an_expected_error_passes_and_another_one_fails(project: Project) -> None:
    changed = with_code(project, "raise ValueError('on purpose')")
    assert faults_of(with_case(changed, error="storlet.failed")) == ()
    assert faults_of(with_case(changed))[0] == "storlet.failed: ValueError: on purpose"
    wrong = faults_of(with_case(changed, error="storlet.load"))[0]
    assert wrong == "want storlet.load, got storlet.failed: ValueError: on purpose"
    refused = with_case(project, parameters={"txt": "x"}, error="bad_request")
    assert faults_of(refused) == ()


def test_a_storlet_that_ends_its_process_fails_its_own_case_only(project: Project) -> None:
    changed = with_code(project, "os._exit(5)")
    assert faults_of(with_case(changed)) == ("the storlet ended its process (exit status 5)",)


def test_a_case_that_takes_too_long_is_ended_with_its_children(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "SECONDS", 5.0)
    place = tmp_path / "pid"
    body = f"child = os.fork()\nif child:\n    open({str(place)!r}, 'w').write(str(child))\nsignal.pause()"
    assert faults_of(with_case(with_code(project, body))) == ("not done after 5 s",)
    pid, give_up = int(place.read_text()), time.monotonic() + 10
    while _is_running(pid):
        assert time.monotonic() < give_up
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_faults_of_the_cases_are_named_before_any_runs(project: Project) -> None:
    for changed, expected in (
        (with_case(project, input="none", output="nothing"), 2),
        (Project(project.folder, {**project.document, "tests": []}), 1),
    ):
        with pytest.raises(ProjectError) as caught:
            run(changed)
        assert len(caught.value.faults) == expected
    with pytest.raises(ProjectError, match="no name contains 'x'"):
        run(project, "x")


def test_the_report_has_every_case_in_junits_form(project: Project) -> None:
    body = "out_files[0].write(b'one\\x01\\n')\nself.logger.info('seen\\x02')"
    found = run(with_case(with_code(project, body), output="expected.txt"))
    suite = ET.fromstring(cases.junit(found, "fruit"))  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    (case,) = suite
    assert "x01" in (case.findtext("failure") or "")
    assert "seen" in (case.findtext("system-out") or "")
    assert suite.get("name") == "fruit"


def test_a_case_can_have_several_inputs(project: Project) -> None:
    changed = with_code(project, "for each in in_files:\n    each.read(65536)")
    with (project.folder / "storlet.toml").open("a") as manifest:
        manifest.write("[inputs]\nmin = 2\n")
    assert faults_of(with_case(changed, input=["sample.txt", "sample.txt"])) == ()
    assert "takes 2" in faults_of(with_case(changed))[0]


def test_a_case_has_its_secrets(project: Project) -> None:
    with_code(project, "from storlet import secrets\nout_files[0].write(secrets.get('key'))")
    (project.folder / "wanted").write_text("of a test")
    row = {"name": "a", "input": "sample.txt", "parameters": {"text": "x"}}
    first = {**row, "output": "wanted", "secrets": {"key": "of a test"}}
    rows = [first, {**row, "name": "b", "error": "storlet.failed"}]
    changed = Project(project.folder, {**project.document, "tests": rows})
    found = list(cases.results(changed, "", cases.InProcesses(changed)))
    assert [each.faults for each in found] == [(), ()]


class Node:
    """A node whose storlet repeats its parameter, after what was in the file before."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output.fileno()

    def run(
        self,
        bundle: Path,
        inputs: list[Input],
        parameters: dict[str, str],
        further: list[Path],
        secrets: dict[str, bytes],
    ) -> Outcome:
        assert (further, secrets) == ([], {"key": parameters["text"].encode()})
        assert inputs[0].path.read_bytes()
        os.write(self._output, parameters["text"].encode())
        return Outcome("ok", log="seen\n")


def test_cases_in_a_sandbox_get_the_output_of_their_own_run(
    project: Project, tmp_path: Path
) -> None:
    rows = [
        {"name": text, "input": "sample.txt", "parameters": {"text": text}, "output": "wanted",
         "secrets": {"key": text}}
        for text in ("one apple\n", "pears")
    ]  # fmt: skip
    (project.folder / "wanted").write_text("pears")
    changed = Project(project.folder, {**project.document, "tests": rows})
    with (tmp_path / "out").open("w+b") as output:
        node = cast(LocalNode, Node(output))
        runner = cases.InSandbox(changed, tmp_path, node, output)
        first, second = cases.results(changed, "", runner)
    assert "+one apple" in first.faults[0]
    assert (second.faults, second.log) == ((), "seen\n")
