"""``check``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from storlet_client.builder import template
from storlet_client.local import check as checks
from storlet_client.local import sandbox
from tests.unit.client.conftest import Command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return template.make(tmp_path / "fruit")


def test_all_faults_of_the_manifest_come_at_once(command: Command, folder: Path) -> None:
    manifest = folder / "storlet.toml"
    text = manifest.read_text().replace('default = ""', "default = 3").replace("main", "mainn")
    manifest.write_text(text)
    result = command("check", str(folder))
    assert result.code == 1
    assert "did you mean main?" in result.err
    assert len(result.err.splitlines()) > 1


def test_a_default_that_does_not_fit_its_type_is_named(command: Command, folder: Path) -> None:
    manifest = folder / "storlet.toml"
    manifest.write_text(manifest.read_text().replace('default = ""', "default = 3"))
    result = command("check", str(folder))
    assert (result.code, "parameters.text.default: 3: is no string" in result.err) == (1, True)


def test_faults_found_in_the_sandbox_are_printed(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with_its_input = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    monkeypatch.setattr(sandbox, "command", lambda: ends_with_its_input)
    monkeypatch.setattr(checks, "faults_of", lambda *_: ["library a: no", "storlet.load: no"])
    result = command("check", str(folder))
    assert (result.code, result.out) == (1, "")
    assert result.err == "storlet: library a: no\nstorlet: storlet.load: no\n"
    monkeypatch.setattr(checks, "faults_of", lambda *_: [])
    assert command("check", str(folder)).out == "fruit 0.1.0 loads in the sandbox\n"


def test_without_the_servers_package_it_names_the_package_to_install(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "command", list)
    result = command("check", str(folder))
    assert (result.code, "install swift-storlets" in result.err) == (3, True)
    assert not (folder / "dist").exists(), "it says so before it builds anything"
    assert ("storlet deploy" in result.err, "--no-sandbox" in result.err) == (True, False)
