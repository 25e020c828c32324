"""Inputs in which a storlet seeks: the object's file, and reads that the filter answers."""

from __future__ import annotations

import io
import os
import random
import socket
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_daemon.author import seekable
from storlet_daemon.protocol import messages

DIGITS = bytes(range(256)) * 20_000


class Filter:
    """The filter's end of the socket: answers reads, and records them."""

    def __init__(self, content: bytes, most: int | None = None) -> None:
        self.content = content
        #: Reads that are answered; the socket is closed after them.
        self._most = most
        self.reads: list[tuple[int, int]] = []
        self._ours, theirs = socket.socketpair()
        self.fd = theirs.detach()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._ours, self._ours.makefile("rb") as requests:
            while len(self.reads) != self._most and (asked := requests.read(16)):
                first, length = struct.unpack(">QQ", asked)
                self.reads.append((first, length))
                self._ours.sendall(self.content[first : first + length])


Open = Callable[[bytes], seekable.StorletSeekableInputFile]


@pytest.fixture(params=["file", "reads"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    inputs = []

    def of(content: bytes) -> seekable.StorletSeekableInputFile:
        source: seekable.StorletSeekableInputFile
        if request.param == "file":
            (tmp_path / "o").write_bytes(content)
            fd = os.open(tmp_path / "o", os.O_RDONLY)
            source = seekable.SeekableFile({"a": "b"}, fd, len(content))
        else:
            source = seekable.SeekableReads({"a": "b"}, Filter(content).fd, len(content))
        inputs.append(source)
        return source

    yield of
    for source in inputs:
        source.close()


def test_size_metadata_and_place_are_known(opened: Open) -> None:
    source = opened(DIGITS)
    assert (source.size, source.tell(), source.seekable()) == (len(DIGITS), 0, True)
    assert source.get_metadata() == {"a": "b"}
    assert source.seek(-3, os.SEEK_END) == len(DIGITS) - 3
    assert source.seek(-2, os.SEEK_CUR) == len(DIGITS) - 5
    assert source.read() == DIGITS[-5:]


def test_it_reads_like_a_file_in_memory(opened: Open) -> None:
    source, twin, chance = opened(DIGITS), io.BytesIO(DIGITS), random.Random(3)  # noqa: S311
    for _ in range(300):
        if chance.random() < 0.5:
            place = chance.randrange(len(DIGITS) + 1000)
            assert source.seek(place) == twin.seek(place)
        length = chance.choice([0, 1, 100, 70_000, 1 << 20, 3 << 20])
        assert source.read(length) == twin.read(length)
        assert source.tell() == twin.tell()
    source.seek(0)
    assert source.read() == DIGITS


def test_beyond_the_end_there_is_nothing(opened: Open) -> None:
    source = opened(b"abc")
    assert source.seek(1000) == 1000
    assert (source.read(), source.read(5), source.readline()) == (b"", b"", b"")
    source.seek(1)
    assert source.read() == b"bc"


def test_an_empty_object_has_no_byte(opened: Open) -> None:
    source = opened(b"")
    assert (source.size, source.read(), source.read(1)) == (0, b"", b"")


@pytest.mark.parametrize(("offset", "whence"), [(-1, os.SEEK_SET), (-4, os.SEEK_END)])
def test_a_place_before_the_start_is_an_error_and_changes_nothing(
    opened: Open, offset: int, whence: int
) -> None:
    source = opened(b"abc")
    source.seek(2)
    with pytest.raises(OSError, match="Invalid argument"):
        source.seek(offset, whence)
    assert source.read() == b"c"


def test_lines_and_an_archive_are_read(opened: Open) -> None:
    assert list(opened(b"one\ntwo\n")) == [b"one\n", b"two\n"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(50):
            archive.writestr(f"{number}", random.Random(number).randbytes(20_000))  # noqa: S311
    with zipfile.ZipFile(opened(packed.getvalue())) as archive:
        assert archive.read("17") == random.Random(17).randbytes(20_000)  # noqa: S311


def test_nothing_can_be_written(opened: Open) -> None:
    source = opened(b"abc")
    with pytest.raises(NotImplementedError):
        source.write(b"x")
    with pytest.raises(NotImplementedError):
        source.set_metadata({})


def test_a_small_read_far_away_reads_a_part_only(opened: Open) -> None:
    source = opened(DIGITS)
    for place in (0, 2_000_000, 4_000_000):
        source.seek(place)
        assert source.read(10) == DIGITS[place : place + 10]
    assert source.bytes_read <= 3 * seekable.BUFFER_BYTES


def test_the_limits_of_reads_are_those_of_the_protocol() -> None:
    assert seekable.READ_BYTES_MAX == messages.READ_MAX


def test_a_reader_that_continues_gets_longer_reads_and_a_seek_begins_again() -> None:
    served = Filter(DIGITS)
    with seekable.SeekableReads({}, served.fd, len(DIGITS)) as source:
        while source.read(10_000):
            pass
        ahead = seekable.BUFFER_BYTES
        lengths = [length for _, length in served.reads]
        assert lengths[:6] == [ahead, 2 * ahead, 4 * ahead, 8 * ahead, 16 * ahead, 16 * ahead]
        assert sum(lengths) == source.bytes_read == len(DIGITS)
        source.seek(3_000_000)
        source.read(1)
        assert served.reads[-1] == (3_000_000, ahead)


def test_short_seeks_forward_count_as_continued_reading() -> None:
    served = Filter(DIGITS)
    with seekable.SeekableReads({}, served.fd, len(DIGITS)) as source:
        for place in range(0, 2_000_000, 70_000):
            source.seek(place)
            assert source.read(5) == DIGITS[place : place + 5]
    assert max(length for _, length in served.reads) > 4 * seekable.BUFFER_BYTES


def test_the_last_range_is_kept() -> None:
    served = Filter(DIGITS)
    with seekable.SeekableReads({}, served.fd, len(DIGITS)) as source:
        raw = source.raw
        raw.seek(1000)
        assert raw.read(10) == DIGITS[1000:1010]
        raw.seek(1000 + seekable.BUFFER_BYTES - 5)
        assert raw.read(100) == DIGITS[raw.tell() - 5 : raw.tell()]
        raw.seek(1001)
        raw.read(1)
    assert len(served.reads) == 1


def test_an_input_that_breaks_off_raises() -> None:
    served = Filter(DIGITS, most=1)
    with seekable.SeekableReads({}, served.fd, len(DIGITS)) as source:
        assert source.read(1) == b"\0"
        source.seek(1_000_000)
        with pytest.raises(OSError, match=r"broke off|Broken pipe|reset by peer"):
            source.read(1)


def test_a_descriptor_that_cannot_seek_is_refused_and_stays_the_callers() -> None:
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Illegal seek"):
        seekable.SeekableFile({}, reading, 5)
    os.close(reading)
    os.close(writing)
