"""The files of a native storlet, which the project's own build makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import bundler, project, template, wheels
from storlet_client.builder.project import ProjectError
from storlet_client.bundle import archive

TOML = """\
name = "fruit"
version = "1"
language = "native"
main = "fruit.sh"
build = ["sh", "make.sh"]
files = ["out/fruit.sh", "words.txt"]
arguments = ["-F", "two words"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose build makes a script."""
    made = tmp_path / "fruit"
    made.mkdir()
    (made / "storlet.toml").write_text(TOML)
    (made / "words.txt").write_text("apple\n")
    (made / "make.sh").write_text(
        "mkdir -p out; printf '#!/bin/sh\\nexec grep \"$@\"\\n' > out/fruit.sh; chmod 755 out/fruit.sh"
    )
    return made


def build(folder: Path) -> archive.Verified:
    path = bundler.build(folder, folder / "dist", wheels.Sandbox())
    with path.open("rb") as packed:
        return archive.verify(packed, archive.Bounds())


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(ProjectError) as caught:
        build(folder)
    return caught.value.faults


def change(folder: Path, old: str, new: str) -> None:
    place = folder / "storlet.toml"
    text = place.read_text()
    assert old in text
    place.write_text(text.replace(old, new))


def test_the_bundle_has_the_files_that_the_build_makes(folder: Path) -> None:
    verified = build(folder)
    modes = {file.path: file.mode for file in verified.files}
    assert modes["code/fruit.sh"] == 0o755
    assert modes["code/words.txt"] == 0o644
    assert verified.manifest["arguments"] == ["-F", "two words"]


def test_the_same_project_gives_the_same_bytes(folder: Path) -> None:
    bundles = [bundler.build(folder, folder / name, wheels.Sandbox()) for name in ("a", "b")]
    assert bundles[0].read_bytes() == bundles[1].read_bytes()


def test_a_build_that_fails_is_reported_with_its_output(folder: Path) -> None:
    (folder / "make.sh").write_text("echo undefined reference >&2; exit 3")
    assert faults_of(folder) == ["build: sh make.sh: exit status 3", "undefined reference"]


def test_the_build_finds_the_header_of_the_interface(folder: Path) -> None:
    with (folder / "make.sh").open("a") as script:
        script.write('; cp "$STORLET_INCLUDE/storlet.h" words.txt')
    build(folder)
    assert "struct storlet_run" in (folder / "words.txt").read_text()


def test_a_missing_tool_is_named(folder: Path) -> None:
    change(folder, '"sh", "make.sh"', '"no-such-tool"')
    assert faults_of(folder) == ["build: no-such-tool is missing: install it, and put it on PATH"]


def test_all_missing_files_are_named(folder: Path) -> None:
    (folder / "make.sh").write_text("exit 0")
    (folder / "words.txt").unlink()
    text = "there is no such file after the build"
    assert faults_of(folder) == [f"files: out/fruit.sh: {text}", f"files: words.txt: {text}"]


def test_two_files_of_one_name_are_refused(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out/words.txt").touch()
    change(folder, '"words.txt"', '"words.txt", "out/words.txt"')
    assert faults_of(folder) == ["files: out/words.txt: another file has this name, too"]


def test_a_program_without_the_execute_permission_is_refused(folder: Path) -> None:
    change(folder, 'main = "fruit.sh"', 'main = "words.txt"')
    assert faults_of(folder) == ["main: code/words.txt is not executable: its mode is 0644"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            'main = "fruit.sh"',
            'main = "other"',
            "want the name of one of files: fruit.sh, words.txt",
        ),
        ('"words.txt"]', '"../words.txt"]', "files.1"),
        ('"words.txt"]', '"/etc/passwd"]', "files.1"),
        ('language = "native"', 'language = "python"', "is of native storlets only"),
        ('files = ["out/fruit.sh", "words.txt"]\n', "", "name the files that the build makes"),
    ],
)
def test_a_fault_of_the_manifest_is_named(folder: Path, old: str, new: str, fault: str) -> None:
    change(folder, old, new)
    assert any(fault in text for text in faults_of(folder))


def test_a_new_project_is_valid(tmp_path: Path) -> None:
    made = project.read(template.make(tmp_path / "sum", "native"))
    assert made.document["files"] == ["target/release/sum"]


def test_links_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    (folder / "make.sh").write_text(
        f"ln -sf words.txt link; ln -sfn {tmp_path} outside; echo x > {tmp_path}/far"
    )
    change(folder, '"words.txt"]', '"words.txt", "link", "outside/far", "dangling"]')
    (folder / "dangling").symlink_to("nowhere")
    (folder / "out").mkdir()
    (folder / "out/fruit.sh").write_text("")
    assert faults_of(folder) == [
        "files: link: a symbolic link: name the file that it leads to",
        "files: outside/far: a link leads out of the project: copy the file into it",
        "files: dangling: a symbolic link: name the file that it leads to",
    ]
