from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from storlet_client.builder import bundler
from storlet_client.builder.project import Project
from storlet_client.local import here, jvm
from storlet_client.local import subject as subjects
from storlet_client.local.run import Input, Outcome
from storlet_client.local.subject import Subject
from tests.support.bundles import bundle


def test_python_runs_in_this_process(project: Project) -> None:
    reading, writing = os.pipe()
    subject = subjects.read(project.folder)
    inputs = [Input(project.folder / "sample.txt")]
    assert here.run_here(subject, inputs, writing, {"text": "pear"}).is_ok
    assert os.read(reading, 100) == b"two pears\n"
    os.close(reading)


def test_java_runs_in_a_jvm_with_the_code_of_its_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grape.storlet"
    fields: dict[str, Any] = {"language": "java", "main": "Grape"}
    path.write_bytes(bundle("grape", {"grape.jar": (b"jar", 0o644)}, **fields))

    def run(project: Project, *_: object) -> Outcome:
        assert (project.folder / "src/grape.jar").read_bytes() == b"jar"
        return Outcome("ok")

    monkeypatch.setattr(jvm, "run", run)
    reading, writing = os.pipe()
    assert here.run_here(subjects.read(path), [], writing, {}).is_ok
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_the_descriptor_is_closed_if_a_java_project_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object) -> Path:
        raise OSError(1, "no")

    monkeypatch.setattr(bundler, "build", build)
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="no"):
        here.run_here(Subject(tmp_path, {"language": "java"}), [], writing, {})
    assert os.read(reading, 1) == b""
    os.close(reading)
