"""The Java parts: built once for the same sources, and not at all without sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.aio import java

BUILD = '#!/bin/sh\necho "$1" >> "$(dirname "$0")/../../calls"\ntouch "$1/storlet-api.jar"\n'
SAMPLES = 'mkdir -p "$1"; cp "$2/storlet-api.jar" "$1/sample.jar"\n'


@pytest.fixture
def checkout(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose build scripts make empty jars."""
    assert cache_dir.parent == tmp_path
    root = tmp_path / "checkout"
    for name, path in (("SCRIPT", "storlet_daemon/java/build.sh"), ("SAMPLES", "storlets"),
                       ("BUILD_SAMPLES", "storlets/build_java.sh")):  # fmt: skip
        monkeypatch.setattr(java, name, root / path)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(java, "CHECKOUT", root)
    java.SCRIPT.write_text(BUILD)
    java.BUILD_SAMPLES.write_text(SAMPLES)
    sample = root / "storlets/upper/src/Upper.java"
    sample.parent.mkdir(parents=True)
    sample.write_text("class Upper {}")
    return root


def test_the_parts_are_built_once(checkout: Path, tmp_path: Path) -> None:
    assert java.needs_tools()
    made = java.parts(tmp_path / "log")
    assert made is not None
    assert (made / java.API_JAR).is_file()
    assert (made / java.SAMPLE_JARS / "sample.jar").is_file()
    assert not java.needs_tools()
    assert java.parts(tmp_path / "log") == made
    assert len((checkout / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "source", ["storlet_daemon/java/build.sh", "storlets/upper/src/Upper.java"]
)
def test_a_changed_source_needs_another_build(checkout: Path, tmp_path: Path, source: str) -> None:
    first = java.parts(tmp_path / "log")
    with (checkout / source).open("a") as file:
        file.write("\n")
    assert java.needs_tools()
    assert java.parts(tmp_path / "log") != first


def test_a_checkout_without_java_sources_needs_no_tools(checkout: Path, tmp_path: Path) -> None:
    (checkout / "storlet_daemon/java/build.sh").unlink()
    assert java.parts(tmp_path / "log") is None
    assert not java.needs_tools()
