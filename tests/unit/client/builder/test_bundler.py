"""Bundles of projects: valid, and the same bytes for the same project."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storlet_client.builder.bundler import build
from storlet_client.builder.project import ProjectError
from storlet_client.builder.wheels import Sandbox
from storlet_client.bundle.archive import Bounds, verify
from tests.unit.client.builder.projects import TOML, make, make_wheel


def test_a_copy_of_a_project_gives_the_same_bytes(tmp_path: Path, index: Path) -> None:
    make_wheel(index, "helper")
    one = make(tmp_path / "one", 'requirements = ["helper"]\n')
    first = build(one, tmp_path / "out1", Sandbox())
    shutil.copytree(one, tmp_path / "two")
    second = build(tmp_path / "two", tmp_path / "out2", Sandbox())
    assert first.name == "thumb-1.0.storlet"
    assert first.read_bytes() == second.read_bytes()
    with first.open("rb") as packed:
        verified = verify(packed, Bounds())
    assert "code/lib/helper.py" in {file.path for file in verified.files}
    assert verified.lock["resolved"][0].startswith("helper==1.0")


def test_faults_of_the_code_are_found_before_the_upload(tmp_path: Path) -> None:
    folder = make(tmp_path / "p")
    (folder / "storlet.toml").write_text(TOML.replace("thumb.Thumb", "other.Thumb"))
    with pytest.raises(ProjectError, match=r"code/other\.py is missing"):
        build(folder, tmp_path / "out", Sandbox())
    assert not (tmp_path / "out").exists()


def test_a_java_project_without_java_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "p")
    (folder / "storlet.toml").write_text(TOML.replace("python", "java"))
    with pytest.raises(ProjectError, match=r"there is no \.java file"):
        build(folder, tmp_path / "out", Sandbox())
