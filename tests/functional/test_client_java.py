"""Java projects with the command ``storlet``: from source to a result, with a JDK and Maven."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import bundler, template, wheels
from storlet_client.builder.jars import LOCK
from storlet_client.builder.project import ProjectError
from storlet_client.login import Token
from storlet_client.operations import Info
from storlet_client.storlets import Storlets
from tests.support.accounts import unique
from tests.support.http import Client

LIBRARY = "org.apache.commons:commons-csv:1.10.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return template.make(tmp_path / "grape", "java")


def build(folder: Path) -> Path:
    return bundler.build(folder, folder / "dist", wheels.Sandbox())


def change(folder: Path, file: str, old: str, new: str) -> None:
    place = folder / file
    text = place.read_text()
    assert old in text
    place.write_text(text.replace(old, new))


def faults_of(folder: Path) -> str:
    with pytest.raises(ProjectError) as caught:
        build(folder)
    return "\n".join(caught.value.faults)


def test_a_new_project_runs_and_its_library_too(users: dict[str, Client], folder: Path) -> None:
    client = users["admin:admin"].on(f"AUTH_{unique('java')}")
    assert client.put("").status in {201, 202}
    change(folder, "storlet.toml", "maven = []", f'maven = ["{LIBRARY}"]')
    change(
        folder,
        "src/Grape.java",
        'out.write(line + "\\n");',
        'out.write(org.apache.commons.csv.CSVFormat.DEFAULT.format(line, "a,b") + "\\n");',
    )
    with Storlets(Token(client.storage_url, client.token)) as storlets:
        assert isinstance(storlets.info(), Info)
        storlets.enable()
        assert storlets.deploy_bundle("grape", build(folder).read_bytes()) == 1
        storlets.upload("samples/list", (folder / "sample.txt").read_bytes())
        with storlets.run("grape", "samples/list", {"text": "apple"}) as output:
            assert output.read() == b'one apple,"a,b"\nthree apples,"a,b"\n'


def test_equal_sources_give_equal_bytes(folder: Path) -> None:
    first = build(folder).read_bytes()
    assert build(folder).read_bytes() == first


def test_errors_of_the_compiler_name_file_and_line(folder: Path) -> None:
    change(folder, "src/Grape.java", "kept++", "kept+++")
    assert "src/Grape.java:40: error:" in faults_of(folder)


def test_a_library_that_does_not_exist_is_named(folder: Path) -> None:
    change(folder, "storlet.toml", "maven = []", 'maven = ["org.apache.commons:commons-csv:0.0.0"]')
    assert "commons-csv:jar:0.0.0" in faults_of(folder)


def test_other_bytes_than_those_of_the_lock_are_refused(folder: Path) -> None:
    change(folder, "storlet.toml", "maven = []", f'maven = ["{LIBRARY}"]')
    build(folder)
    lock = folder / LOCK
    lock.write_text(lock.read_text().replace("sha256:", "sha256:0"))
    assert f"delete {LOCK}" in faults_of(folder)
