"""Files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from storlet_client.cli.progress import chunks_of, size_of, watched, written
from tests.support.cluster import CHECKOUT


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


def test_the_size_of_a_file_is_known_and_that_of_a_pipe_is_not(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc")
    with (tmp_path / "in").open("rb") as file:
        assert size_of(file) == 3
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert size_of(pipe) is None


@pytest.mark.parametrize(("total", "shown"), [(6, "6/6 bytes"), (None, "6 bytes")])
def test_a_terminal_shows_the_size_if_it_is_known(total: int | None, shown: str) -> None:
    parent, child = pty.openpty()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from storlet_client.cli.progress import watched\n"
        f"list(watched([b'abc', b'def'], 'up [red]\\nx', {total}))"
    )
    words = [sys.executable, "-c", code, str(CHECKOUT)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(words, stderr=child, env=environment, check=True, timeout=60)
    os.close(child)
    text = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while chunk := os.read(parent, 65536):
            text += chunk
    os.close(parent)
    assert done.returncode == 0
    assert f"{shown}" in text.decode()
    assert "up [red]\\nx" in text.decode()
    assert ("/?" in text.decode()) is False


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(watched(chunks_of(io.BytesIO(b"abc"), 2), "up", 3)) == [b"ab", b"c"]
    assert capfd.readouterr() == ("", "")
