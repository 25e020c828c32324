"""The files of the object that is scanned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.http import BadAnswer
from tests.bench.rows.scan import Copies

SIZE = 3_000_000


def on_disk(disk: Path, folder: str, size: int) -> Path:
    path = disk / folder / "7/abc/hash/1700000000.00000.data"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * size)
    return path


def test_the_copies_of_an_object_are_found_by_their_length_and_stay_as_they_are(
    tmp_path: Path,
) -> None:
    found = [on_disk(tmp_path / "d1", "objects", SIZE), on_disk(tmp_path / "d2", "objects-1", SIZE)]
    on_disk(tmp_path / "d3", "objects", SIZE + 1)
    copies = Copies([tmp_path / name for name in ("d1", "d2", "d3")], SIZE)
    copies.cache()
    copies.forget()
    assert sorted(copies.files) == sorted(found)
    assert all(path.read_bytes() == b"x" * SIZE for path in found)


def test_an_object_on_no_disk_is_reported(tmp_path: Path) -> None:
    on_disk(tmp_path / "d1", "objects", SIZE)
    with pytest.raises(BadAnswer, match=f"{SIZE + 5} bytes on {tmp_path}/d1"):
        Copies([tmp_path / "d1"], SIZE + 5)
