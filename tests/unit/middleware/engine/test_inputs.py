"""The inputs of an invocation: ownership, counts, and the failure of a source."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import eventlet
import pytest

from storlet_middleware import errors
from storlet_middleware.engine.handover import Handover
from storlet_middleware.engine.inputs import ContentFiles, Inputs
from storlet_middleware.engine.task import FileInput, Input, SeekableInput, StreamInput
from storlet_middleware.errors import InputIncomplete, StorletError, Unprocessable
from tests.unit.middleware.engine.invocations import Source
from tests.unit.middleware.engine.test_reads import Content
from tests.unit.middleware.support import open_descriptors, wait_until


def test_content_is_in_one_file_with_descriptors_that_cannot_write() -> None:
    before = open_descriptors()
    with ContentFiles() as files, files.open(b"abc", {}) as one, files.open(b"abc", {}) as other:
        assert os.fstat(one.fd).st_ino == os.fstat(other.fd).st_ino
        assert os.read(one.fd, 2) + os.read(other.fd, 9) == b"ababc"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(one.fd, b"x")
        with files.open(b"abc", {}, is_seekable=True) as seekable:
            assert (one.size, seekable.size) == (None, 3)
        with files.open(b"", {"a": "b"}) as empty:
            assert (os.read(empty.fd, 1), empty.metadata) == (b"", {"a": "b"})
    assert open_descriptors() == before


def test_no_descriptor_that_can_write_is_given_to_a_storlet(tmp_path: Path) -> None:
    with (tmp_path / "in").open("w+b") as file:
        hand = Hand([FileInput(file.fileno(), {})])
        with pytest.raises(AssertionError, match="can be written"):
            hand.give()
        hand.close()


class Hand:
    """Inputs that are handed over, read by the test instead of a worker."""

    def __init__(self, items: list[Input]) -> None:
        self.cancelled = 0
        self.inputs = Inputs(items, self._cancel)
        self.handover = Handover()

    def _cancel(self) -> None:
        self.cancelled += 1

    def give(self) -> list[int]:
        """Hand over; the descriptors as a worker has them."""
        described = self.inputs.describe(self.handover)
        return [self.handover._sent[item.fd] for item in described]

    def close(self) -> None:
        self.handover.close()
        self.inputs.close()


def broken(error: BaseException) -> Iterator[bytes]:
    yield b"half"
    raise error


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "o").write_bytes(b"0123456789")
    descriptor = os.open(tmp_path / "o", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_positions_ranges_and_metadata_are_described_in_order(file: int) -> None:
    hand = Hand([FileInput(file, {"a": "b"}, 2, 5), StreamInput(Source([b"x"]), {"c": "d"})])
    assert hand.inputs.has_streams
    first, second = hand.inputs.describe(hand.handover)
    assert (first.fd, first.start, first.end, first.metadata) == (0, 2, 5, {"a": "b"})
    assert (second.fd, second.metadata) == (1, {"c": "d"})
    assert not hand.inputs.has_streams, "the source is being read already"
    hand.close()


def test_bytes_taken_are_those_of_streams_and_of_files_from_their_first_byte(file: int) -> None:
    hand = Hand([FileInput(file, {}, 2), StreamInput(Source([b"abc", b"de"]), {})])
    given, stream = hand.give()
    os.lseek(given, 7, os.SEEK_SET)
    assert wait_until(lambda: hand.inputs.bytes_taken() == 5 + 5)
    assert [hand.inputs.were_read(), hand.inputs.were_read()] == [True, False]
    os.lseek(given, 0, os.SEEK_SET)  # a storlet may seek back
    assert hand.inputs.bytes_taken() == 5
    assert os.read(stream, 10) == b"abcde"
    hand.close()


def test_a_file_in_which_a_storlet_seeks_counts_what_its_worker_reported(file: int) -> None:
    hand = Hand([FileInput(file, {"a": "b"}, size=10)])
    [described] = hand.inputs.describe(hand.handover)
    assert (described.seekable, described.size, described.start) == ("file", 10, None)
    assert not hand.inputs.were_read()
    os.lseek(file, 7, os.SEEK_SET)
    assert hand.inputs.were_read()
    assert hand.inputs.bytes_taken() == 0
    hand.inputs.reported_bytes = 4
    assert hand.inputs.bytes_taken() == 4
    hand.close()


def test_reads_of_a_source_are_served_counted_and_ended() -> None:
    source = Content(b"0123456789")
    hand = Hand([SeekableInput(source, {"a": "b"})])
    assert hand.inputs.has_streams
    [described] = hand.inputs.describe(hand.handover)
    assert (described.seekable, described.size, described.metadata) == ("reads", 10, {"a": "b"})
    end = hand.handover._sent[described.fd]
    os.write(end, struct.pack(">QQ", 3, 4))
    assert wait_until(lambda: hand.inputs.bytes_taken() == 4)
    assert os.read(end, 10) == b"3456"
    hand.inputs.finish()
    assert source.is_closed
    hand.close()


def test_a_source_of_reads_that_were_not_handed_over_is_closed() -> None:
    source = Content()
    Hand([SeekableInput(source, {})]).close()
    assert source.is_closed


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError("gone"), InputIncomplete),
        (eventlet.Timeout(None), InputIncomplete),
        (StorletError("wrong hash", status=422, code="input.etag_mismatch"), StorletError),
    ],
)
def test_a_broken_source_cancels_once_and_its_error_is_raised(
    error: BaseException, raised: type[StorletError]
) -> None:
    hand = Hand([StreamInput(Source(broken(error)), {})])
    hand.give()
    assert wait_until(lambda: hand.cancelled == 1)
    with pytest.raises(raised) as caught:
        hand.inputs.failure.raise_error()
    expected = "input.etag_mismatch" if raised is StorletError else "input.incomplete"
    assert caught.value.code == expected
    hand.close()
    assert hand.cancelled == 1


def test_finish_drains_the_sources_that_need_it_and_drops_the_others() -> None:
    drained, dropped = Source([b"x" * 65536] * 40), Source([b"x" * 65536] * 40)
    hand = Hand([StreamInput(drained, {}, drains=True), StreamInput(dropped, {})])
    hand.give()
    hand.handover.close()
    hand.inputs.finish()
    assert drained.taken == 40
    assert dropped.taken < 40
    assert drained.is_closed
    assert dropped.is_closed


def test_progress_is_a_write_after_the_moment_or_a_wait_for_the_source() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x"
        eventlet.sleep(5)

    hand = Hand([StreamInput(Source(chunks()), {}, is_ours=True)])
    assert not Inputs([], lambda: None).were_fed_since(0.0)
    hand.give()
    eventlet.sleep(0.02)
    assert hand.inputs.were_fed_since(time.monotonic() + 60), "it waits for its source"
    hand.close()


def test_sources_that_were_never_handed_over_are_closed_without_being_read(file: int) -> None:
    sources = [Source([b"x"]), Source([b"y"])]
    items: list[Any] = [FileInput(file, {}), *(StreamInput(one, {}) for one in sources)]
    before = open_descriptors()
    inputs = Inputs(items, lambda: None)
    inputs.close()
    inputs.close()
    assert [(one.is_closed, one.taken) for one in sources] == [(True, 0)] * 2
    assert open_descriptors() == before


def test_a_source_that_cannot_be_closed_leaves_no_other_open() -> None:
    class Stubborn(Source):
        def close(self) -> None:
            raise OSError("no")

    last = Source([b"x"])
    before = open_descriptors()
    hand = Hand([StreamInput(Stubborn([b"x"]), {}), StreamInput(last, {})])
    with pytest.raises(OSError, match="no"):
        hand.inputs.close()
    assert last.is_closed
    hand.handover.close()
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("is_awaited", "code"), [(True, errors.TIMEOUT_IDLE), (False, errors.BACKEND_FAILED)]
)
def test_input_that_is_not_taken_is_the_storlets_fault_only_while_its_output_is_read(
    is_awaited: bool, code: str
) -> None:
    inputs = Inputs([], lambda: None)
    inputs.is_output_awaited = is_awaited
    inputs._fail(Unprocessable("no more input was taken", code=errors.TIMEOUT_IDLE))
    with pytest.raises(StorletError) as caught:
        inputs.failure.raise_error()
    assert caught.value.code == code
