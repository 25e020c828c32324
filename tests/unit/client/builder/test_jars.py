"""The jars of a Java storlet; ``tests/functional/test_client_builds.py`` compiles real projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import jars, project, template
from storlet_client.builder.project import ProjectError


def test_all_missing_tools_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project.read(template.make(tmp_path / "grape", "java"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    def missing(*coordinates: str) -> list[str]:
        with pytest.raises(ProjectError) as caught:
            jars.build(made.folder, "grape", made.source(), coordinates)
        return [fault.split()[0] for fault in caught.value.faults]

    assert missing() == ["javac", "mvn"]
    # Maven has run before, so only libraries need it.
    kept = tmp_path / jars._KEPT
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert missing() == ["javac"]
    assert missing("a:b:1") == ["javac", "mvn"]


def test_an_error_of_maven_has_no_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project.read(template.make(tmp_path / "grape", "java"))
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\nprintf '\\033[0m\\033[0m[ERROR] no \\033[1;31ma:b:1\\033[m\\n'; exit 1\n"
    )
    maven.chmod(0o755)
    # The compiler must be there, and does not run before Maven.
    (tmp_path / "javac").symlink_to(maven)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ProjectError) as caught:
        jars.build(made.folder, "grape", made.source(), ("a:b:1",))
    assert caught.value.faults == ["maven: no a:b:1"]


def test_maven_runs_again_for_other_libraries_or_without_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project.read(template.make(tmp_path / "grape", "java"))
    tools, runs = tmp_path / "tools", tmp_path / "runs"
    tools.mkdir()
    maven = "\n".join((
        "#!/bin/sh", f"echo >>'{runs}'", 'for word; do case "$word" in',
        f"-DoutputDirectory=*) echo a >${{word#*=}}/a.jar; echo >${{word#*=}}/{jars._PROVIDED};;",
        "esac; done",
    ))  # fmt: skip
    for name, text in (("mvn", maven), ("javac", "#!/bin/sh\n")):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")

    def count(*coordinates: str) -> int:
        files, lines = jars.build(made.folder, "grape", made.source(), coordinates)
        assert (files["a.jar"][0], set(files)) == (b"a\n", {"a.jar", "grape.jar"})
        assert [line.split()[0] for line in lines] == ["a.jar"]
        return len(runs.read_text())

    assert [count("a:b:1"), count("a:b:1"), count("a:b:2"), count("a:b:2")] == [1, 1, 2, 2]
    (made.folder / jars.LOCK).unlink()
    assert [count("a:b:2"), count("a:b:2")] == [3, 3]


def test_the_sources_of_the_authors_api_are_part_of_the_package() -> None:
    assert (jars._API / "org/openstack/storlet/common/IStorlet.java").is_file()
