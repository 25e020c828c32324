"""Libraries: resolved for the sandbox, locked by hash, the same on each machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import wheels
from storlet_client.builder.project import ProjectError
from storlet_client.builder.wheels import Sandbox
from tests.unit.client.builder.projects import make_wheel


def test_libraries_are_locked_by_hash_and_without_scripts(index: Path, tmp_path: Path) -> None:
    wheel = make_wheel(index, "helper")
    files, lines = wheels.install(tmp_path, ["helper>=1"], Sandbox())
    assert files["lib/helper.py"] == (b"VALUE = 5\n", 0o644)
    assert not any("bin/" in path for path in files)
    assert b"/bin/" not in files["lib/helper-1.0.dist-info/RECORD"][0]
    assert lines[0].startswith("helper==1.0 --hash=sha256:")
    # Another wheel of the same version is refused, by a new process.
    make_wheel(index, "helper", "cp311-cp311-manylinux_2_17_x86_64").replace(wheel)
    assert wheels.install(tmp_path, ["helper>=1"], Sandbox()) == (files, lines)
    wheels._installed.clear()
    with pytest.raises(ProjectError, match="pip: "):
        wheels.install(tmp_path, ["helper>=1"], Sandbox())


def test_wheels_are_those_of_the_sandbox(index: Path, tmp_path: Path) -> None:
    make_wheel(index, "helper", "cp311-cp311-manylinux_2_17_aarch64")
    with pytest.raises(ProjectError, match="No matching distribution"):
        wheels.install(tmp_path, ["helper"], Sandbox())
    assert not (tmp_path / wheels.LOCK).exists()
    files, _ = wheels.install(tmp_path, ["helper"], Sandbox(machine="aarch64"))
    assert "lib/helper.py" in files


def test_libraries_are_for_the_python_of_the_sandbox_and_not_for_this_one(
    index: Path, tmp_path: Path
) -> None:
    """The client may run under an older Python than the sandbox."""
    make_wheel(index, "helper", requires_python=">=3.50")
    with pytest.raises(ProjectError, match=r"requires a different Python|No matching"):
        wheels.install(tmp_path, ["helper"], Sandbox("3.49"))
    files, _ = wheels.install(tmp_path, ["helper"], Sandbox("3.50"))
    assert "lib/helper.py" in files


def test_project_without_requirements_needs_no_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_pip", None)
    assert wheels.install(tmp_path, [], Sandbox()) == ({}, ())
