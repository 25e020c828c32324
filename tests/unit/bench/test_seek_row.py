"""The usage in the head of an answer, and the sum that a storlet has to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.http import BadAnswer
from tests.bench.rows.seek import PART_BYTES, bytes_in, sum_of_parts

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Storlet-Usage: %b\r\n\r\n"


def test_the_bytes_that_were_read_are_found() -> None:
    assert bytes_in(HEAD % b"cpu=0.1;peak-memory=9;in=1234;out=5") == 1234
    assert bytes_in(HEAD % b"in=7;out=5;service-operations=1;service-in=9") == 7


def test_an_answer_without_usage_is_refused() -> None:
    with pytest.raises(BadAnswer, match="no usage in"):
        bytes_in(b"HTTP/1.1 200 OK\r\n\r\n")


def test_the_sum_is_that_of_the_start_of_each_block(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\1" * PART_BYTES + b"\2" * PART_BYTES + b"\3" * 7)
    assert sum_of_parts(file, 2 * PART_BYTES) == PART_BYTES + 3 * 7
