"""The files that show the limits of a sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlet_daemon import inspection
from storlet_daemon.protocol import framing, messages


def test_files_that_cannot_be_read_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb")
    (tmp_path / "empty").touch()
    paths = [str(tmp_path / name) for name in ("missing", "file", "empty", ".")]
    monkeypatch.setattr(inspection, "FILES", paths)
    assert inspection.read() == {paths[1]: "a\N{REPLACEMENT CHARACTER}b", paths[2]: ""}


def test_a_file_that_does_not_fit_is_left_out_and_later_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"first": 30_000, "large": 40_000, "last": 10}
    for name, size in sizes.items():
        (tmp_path / name).write_text("x" * size)
    monkeypatch.setattr(inspection, "FILES", [str(tmp_path / name) for name in sizes])
    found = inspection.read()
    assert [Path(path).name for path in found] == ["first", "last"]
    assert all(len(text) == sizes[Path(path).name] for path, text in found.items())


@pytest.mark.parametrize("character", ["x", "\n", "\0", "\N{SNOWMAN}"])
def test_the_answer_always_fits_into_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    """Characters that JSON escapes count with their escape."""
    paths = [tmp_path / str(number) for number in range(10)]
    for path in paths:
        path.write_text(character * 9_000)
    monkeypatch.setattr(inspection, "FILES", [str(path) for path in paths])
    found = inspection.read()
    assert len(json.dumps(found)) <= messages.MESSAGE_MAX
    framing.encode(messages.Inspected(1, found))


def test_the_files_of_this_kernel_are_read() -> None:
    found = inspection.read()
    assert found["/proc/self/status"].startswith("Name:")
    assert found.keys() <= set(inspection.FILES)
