"""An object without a size reaches the engine whole, and the engine keeps no bytes of it."""

from __future__ import annotations

import gzip
import io
import json
import sys
from typing import Any

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
SELECT = LibraryStorlet("s3-select")
CONVERT = LibraryStorlet("convert")
STREAM: Any = shared("object_stream")
MIB = 1 << 20
#: Memory that the engine needs for a small object of each form, in MiB.
MEMORY_MIB = {"csv": 64, "crlf": 64, "jsonl": 128}
TEXT = b"x" * 1000
QUERY = "SELECT count(*) AS n, max(a) AS last FROM input"


class Part(io.RawIOBase):
    """A source whose reads end anywhere."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__()
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        return self._file.read(min(size or 0, self._most))


@given(
    st.binary(max_size=50), st.integers(0, 600_000), st.integers(9000, 300_000), st.integers(0, 9)
)
def test_blocks_are_a_frame_of_zstd(unit: bytes, size: int, most: int, head: int) -> None:
    data = (unit * (size // max(len(unit), 1) + 1))[:size]
    blocks = STREAM.Blocks(Part(data[head:], most), data[:head])
    frame = STREAM.FRAME
    while part := blocks.read(256 * 1024):
        frame += part
    assert blocks.read(1) == b""
    decompressor = zstd.ZstdDecompressor()
    assert decompressor.decompress(frame) == data
    assert decompressor.eof
    assert decompressor.unused_data == b""


def object_bytes(form: str) -> int:
    """The size of an object that is larger than the memory."""
    return (MEMORY_MIB[form] + 16) * MIB


def memory(form: str) -> dict[str, str]:
    return {"memory-mib": str(MEMORY_MIB[form])}


def lines(form: str, last: int) -> bytes:
    """A large object whose last record alone has the value ``last``."""
    unit, end = {
        "csv": (b"1," + TEXT + b"\n", b"%d,y" % last),
        "crlf": (b"1," + TEXT + b"\r\n", b"%d,y" % last),
        "jsonl": (b'{"a":1,"b":"' + TEXT + b'"}\n', b'{"a":%d,"b":"y"}' % last),
    }[form]
    start = {"csv": b"a,b\n", "crlf": b"a,b\r\n\r\n", "jsonl": b""}[form]
    return start + unit * (object_bytes(form) // len(unit)) + end


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_sql_keeps_nothing_of_the_object(form: str) -> None:
    data = lines(form, 7)
    given = {"format": "jsonl"} if form == "jsonl" else {"parallel": "false"}
    ran = SQL.run(data, {"query": QUERY, **memory(form), **given})
    count = object_bytes(form) // (data.index(b"\n", 50) + 1 - 4 * (form == "csv")) + 1
    assert ran.output == b"n,last\n%d,7\n" % count


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_s3_select_keeps_nothing_of_the_object(form: str) -> None:
    """JSON lines need more memory: without the file of blocks the engine keeps it all, and more."""
    request = {
        "expression": "SELECT s.a FROM S3Object s WHERE s.b = 'y'",
        "input": {"type": "LINES"} if form == "jsonl" else {"header": "USE"},
        "output": {"quotes": "ASNEEDED"},
    }
    given = memory(form) if form == "csv" else {}
    ran = SELECT.run(lines(form, 7), {"request": json.dumps(request), **given})
    assert b"R\x00\x00\x00\x027\n" in ran.output
    assert ran.output[-21:-20] == b"S"


def test_convert_keeps_nothing_of_the_object() -> None:
    """Its check of JSON lines is slow, and reads them as ``std:sql`` does."""
    given = {"output": "jsonl", "parallel": "false", **memory("crlf")}
    ran = CONVERT.run(lines("crlf", 7), given)
    assert ran.output[:-1].rpartition(b"\n")[2] == b'{"a":7,"b":"y"}'


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("has_end", [True, False])
@pytest.mark.parametrize("buffers", [1, 2])
def test_the_last_row_at_the_end_of_a_buffer(
    monkeypatch: pytest.MonkeyPatch, buffers: int, has_end: bool, more: int, compression: str
) -> None:
    """The buffers of the engine, the bound of a line and the head are those of a run in small."""
    buffer_bytes = 256 * 1024
    monkeypatch.setattr("sql_input.BUFFER_BYTES", buffer_bytes)
    monkeypatch.setattr("sql_input.MOST_LINE_BYTES", buffer_bytes // 8)
    monkeypatch.setattr("sql_input.HEAD_BYTES", buffer_bytes // 8)
    size = buffers * buffer_bytes + more
    end = b"7,y\n" if has_end else b"7,y"
    unit = b"1," + TEXT + b"\n"
    start = b"a,b\n"
    count, rest = divmod(size - len(start) - len(end), len(unit))
    data = start + unit * (count - 1) + b"1," + b"x" * (len(TEXT) + rest) + b"\n" + end
    assert len(data) == size
    if compression == "gzip":
        data = gzip.compress(data, 1)
    given = {"query": QUERY, "parallel": "false", "compression": compression}
    assert SQL.run(data, given).output == b"n,last\n%d,7\n" % (count + 1)


def test_only_one_file_reads_the_pipe() -> None:
    with shared("sql_pipes").opened_pipes("input") as pipes:
        readers: list[Any] = []
        first, second = STREAM.PipeFile(pipes, readers), STREAM.PipeFile(pipes, readers)
        assert (first.seek(0), second.seek(0)) == (0, 0)
        feeder = STREAM.Inlet(pipes.paths["input"]).feeder(io.BytesIO(b"b"), b"a", pipes)
        feeder.start()
        assert first.read(1) == b"a"
        for refused in (
            lambda: first.seek(0),
            lambda: second.seek(1),
            lambda: second.read(1),
            lambda: first.read(-1),
        ):
            with pytest.raises(STREAM.SqlError):
                refused()
        assert first.read(2) == b"b"
        assert first.read(2) == b""
        feeder.join()
        feeder.require_no_error()
        pipes.close("input_reader")
        with pytest.raises(ValueError, match="the pipe input is closed"):
            first.read(1)


def test_an_image_without_fsspec_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    data = b'{"a":1}\n'
    with pytest.raises(STREAM.SqlError, match="std:sql needs the Python package fsspec"):
        SQL.run(data, {"query": QUERY, "format": "jsonl"})
    request = {"expression": "SELECT * FROM S3Object", "input": {"type": "LINES"}, "output": {}}
    ran = SELECT.run(data, {"request": json.dumps(request)})
    assert b"std:s3-select needs the Python package fsspec" in ran.output


@pytest.mark.parametrize("more", [-3, -2, -1, 0])
def test_the_last_line_of_json_at_the_end_of_a_buffer(more: int) -> None:
    """The engine refuses one without an end whose buffer has two bytes more."""
    size, line = (32 << 20) + more, b'{"a":1,"b":"' + TEXT + b'"}\n'
    data = line * (size // len(line) - 1) + b'{"a":7,"b":"'
    data += b"y" * (size - len(data) - 2) + b'"}'
    assert len(data) == size
    count = data.count(b"\n") + 1
    ran = SQL.run(data, {"query": QUERY, "format": "jsonl"})
    assert ran.output == b"n,last\n%d,7\n" % count
    request = {
        "expression": "SELECT COUNT(*), MAX(s.a) FROM S3Object s",
        "input": {"type": "LINES"},
        "output": {"quotes": "ASNEEDED"},
    }
    found = SELECT.run(data, {"request": json.dumps(request)}).output
    assert b"%d,7\n" % count in found
