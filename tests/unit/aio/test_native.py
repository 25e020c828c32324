"""The native parts: built once for the same sources, and not at all without sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.aio import native

BUILD = '#!/bin/sh\necho "$1" >> "$(dirname "$0")/../../calls"\ntouch "$1/storlet.h"\n'


@pytest.fixture
def checkout(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose build script makes an empty header."""
    assert cache_dir.parent == tmp_path
    root = tmp_path / "checkout"
    script = root / "storlet_daemon/native/build.sh"
    monkeypatch.setattr(native, "CHECKOUT", root)
    monkeypatch.setattr(native, "SCRIPT", script)
    script.parent.mkdir(parents=True)
    script.write_text(BUILD)
    return root


def test_the_parts_are_built_once_for_the_same_sources(checkout: Path, tmp_path: Path) -> None:
    assert native.needs_tools()
    made = native.parts(tmp_path / "log")
    assert made is not None
    assert (made / native.HEADER).is_file()
    assert not native.needs_tools()
    assert native.parts(tmp_path / "log") == made
    assert len((checkout / "calls").read_text().splitlines()) == 1
    (native.SCRIPT.parent / "worker.c").write_text("int main(void) { return 0; }")
    assert native.needs_tools()
    assert native.parts(tmp_path / "log") != made


def test_a_checkout_without_native_sources_needs_no_tools(checkout: Path, tmp_path: Path) -> None:
    native.SCRIPT.unlink()
    assert native.parts(tmp_path / "log") is None
    assert not native.needs_tools()
