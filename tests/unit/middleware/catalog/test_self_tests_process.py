"""The child process that reads the test cases of a bundle."""

from __future__ import annotations

import io

import pytest

from storlet_middleware import child
from storlet_middleware.catalog import self_tests_process
from tests.support.bundles import tool

pytestmark = pytest.mark.usefixtures("real_processes")
ROWS = [{"name": "a", "input": "in", "output": "out"}, {"name": "b", "input": "x", "upload": False}]
FILES = {"in": b"12\n34", "out": b""}
PACKED = tool("tool", tests=ROWS, test_files=FILES)


def test_cases_and_files_are_read() -> None:
    described, contents = self_tests_process.read(io.BytesIO(PACKED))
    assert described == {"cases": ROWS[:1], "files": [("in", 5), ("out", 0)], "outputs": 1}
    assert contents == [b"12\n34", b""]


def test_process_prints_a_line_and_the_contents() -> None:
    status, said = child.run(self_tests_process.__name__, PACKED, 10)
    assert status == 0
    assert said.partition(b"\n")[2] == b"12\n34"


def test_damaged_bundle_ends_the_process_with_a_failure() -> None:
    status, _ = child.run(self_tests_process.__name__, PACKED[:-40], 10)
    assert status != 0
