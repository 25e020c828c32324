from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder.project import Project, ProjectError
from storlet_client.bundle import archive
from storlet_client.local import subject as subjects


def test_a_project_is_built_for_the_time_of_a_run(project: Project) -> None:
    subject = subjects.read(project.folder)
    with subject.as_project() as same:
        assert same == project
    with subject.as_bundle() as bundle:
        assert subjects.read(bundle).document["main"] == "fruit.Fruit"
    assert not bundle.exists()


def test_a_bundle_is_unpacked_for_the_time_of_a_run(project: Project, tmp_path: Path) -> None:
    with subjects.read(project.folder).as_bundle() as built:
        (tmp_path / "copy").write_bytes(built.read_bytes())
    subject = subjects.read(tmp_path / "copy")
    with subject.as_bundle() as same:
        assert same == tmp_path / "copy"
    with subject.as_project() as unpacked:
        source = (unpacked.folder / "src/fruit.py").read_text()
        assert source == (project.folder / "src/fruit.py").read_text()
    assert not unpacked.folder.exists()


def test_a_bundle_has_the_files_of_its_cases(project: Project, tmp_path: Path) -> None:
    subject = subjects.read(project.folder)
    with subject.with_cases() as same:
        assert same == project
    with subject.as_bundle() as built:
        (tmp_path / "copy").write_bytes(built.read_bytes())
    packed = subjects.read(tmp_path / "copy")
    assert (subject.left_out, packed.left_out) == ([], [])
    with packed.with_cases() as unpacked:
        content = (unpacked.folder / "sample.txt").read_bytes()
        assert content == (project.folder / "sample.txt").read_bytes()
    assert not unpacked.folder.exists()


@pytest.mark.parametrize("content", [b"", b"x" * 100])
def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"a{archive.SUFFIX}").write_bytes(content)
    with pytest.raises(ProjectError, match="not a zip"):
        subjects.read(tmp_path / f"a{archive.SUFFIX}")


@pytest.mark.parametrize("content", [b"", b"class Up: pass", b"PK"])
def test_the_plain_file_of_a_storlet_is_named_as_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "up.py").write_bytes(content)
    with pytest.raises(ProjectError, match=r"neither the folder of a project nor a bundle"):
        subjects.read(tmp_path / "up.py")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="No such file"):
        subjects.read(tmp_path / "none")
