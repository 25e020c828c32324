"""Files that appear only when they are complete."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from storlet_client.cli.progress import chunks_of, watched, written


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def test_a_file_replaces_the_old_one_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"old")
    with written(str(place)) as file:
        file.write(b"new")
        assert place.read_bytes() == b"old"
    assert place.read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"old")

    def fail() -> None:
        with written(str(place)) as file:
            file.write(b"half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert (place.read_bytes(), names(tmp_path)) == (b"old", ["out"])


def test_a_device_is_written_in_place() -> None:
    with written("/dev/null") as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(watched(chunks_of(io.BytesIO(b"abc"), 2), "up", 3)) == [b"ab", b"c"]
    assert capfd.readouterr() == ("", "")
