"""Reads of a seekable input: bounds, failures, and what a worker cannot do with them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from storlet_daemon.protocol.messages import READ_MAX
from storlet_middleware.concurrency import sleep
from storlet_middleware.engine.reads import ReadPace, Reads
from storlet_middleware.errors import BackendFailed, Unprocessable
from tests.unit.middleware.support import open_descriptors, wait_until

CONTENT = bytes(range(256)) * 16_384


@dataclass
class Content:
    """A source of bytes in memory."""

    content: bytes = CONTENT
    error: BaseException | None = None
    reads: list[tuple[int, int]] = field(default_factory=list)
    is_closed: bool = False
    #: Called in each read.
    during: Callable[[], object] = bool

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, first: int, length: int) -> bytes:
        self.reads.append((first, length))
        self.during()
        if self.error is not None:
            raise self.error
        return self.content[first : first + length]

    def close(self) -> None:
        self.is_closed = True


class Served:
    """Inputs that are served, and the worker's ends of their sockets."""

    def __init__(self, *sources: Content, rate: int = 1000) -> None:
        pace = ReadPace(rate)
        self.failures: list[BaseException] = []
        self.reads = [Reads(source, pace, self.failures.append) for source in sources]
        self.ends = [each.begin() for each in self.reads]
        for end in self.ends:
            os.set_blocking(end, False)

    def ask(self, first: int, length: int, number: int = 0) -> None:
        os.write(self.ends[number], struct.pack(">QQ", first, length))

    def take(self, length: int, number: int = 0) -> bytes:
        """``length`` bytes of answers; fewer at the end, or if they do not come."""
        taken = b""

        def is_complete() -> bool:
            nonlocal taken
            try:
                piece = os.read(self.ends[number], length - len(taken))
            except BlockingIOError:
                return False
            taken += piece
            return not piece or len(taken) == length

        wait_until(is_complete)
        return taken

    def close(self) -> None:
        for each in self.reads:
            each.stop()
        for end in self.ends:
            os.close(end)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    sleep(0)  # the hub has a descriptor of its own
    before = open_descriptors()
    made: list[Served] = []

    def of(*sources: Content, rate: int = 1000) -> Served:
        made.append(Served(*sources, rate=rate))
        return made[-1]

    yield of
    for served in made:
        served.close()
    assert open_descriptors() == before


Serve = Callable[..., Served]


def test_a_read_gets_exactly_its_bytes(serve: Serve) -> None:
    served = serve(Content())
    for first, length in ((0, 1), (1000, 5000), (len(CONTENT) - 3, 3), (7, READ_MAX)):
        served.ask(first, length)
        assert served.take(length) == CONTENT[first : first + length]
    assert served.reads[0].bytes_taken == 1 + 5000 + 3 + READ_MAX


@pytest.mark.parametrize(
    ("first", "length"),
    [(0, 0), (0, READ_MAX + 1), (len(CONTENT), 1), (len(CONTENT) - 1, 2), (2**64 - 1, 2**64 - 1)],
)
def test_a_read_outside_of_the_object_ends_the_run(serve: Serve, first: int, length: int) -> None:
    source = Content()
    served = serve(source)
    served.ask(first, length)
    assert served.take(1) == b""
    assert isinstance(served.failures[0], Unprocessable)
    assert (source.reads, source.is_closed) == ([], True)


def test_a_read_that_fails_ends_the_run_and_gives_no_byte(serve: Serve) -> None:
    served = serve(Content(error=BackendFailed("gone")))
    served.ask(0, 10)
    assert served.take(1) == b""
    assert [str(error) for error in served.failures] == ["gone"]


def test_the_end_of_the_worker_is_no_failure(serve: Serve) -> None:
    source = Content()
    served = serve(source)
    os.write(served.ends[0], b"half a r")
    os.close(served.ends.pop())
    assert wait_until(lambda: served.reads[0].is_over)
    assert (served.failures, source.is_closed) == ([], True)


def test_a_worker_that_closes_while_it_is_answered_is_no_failure(serve: Serve) -> None:
    served = serve(Content())
    for _ in range(3):
        served.ask(0, READ_MAX)
    assert served.take(10) == CONTENT[:10]
    os.close(served.ends.pop())
    assert wait_until(lambda: served.reads[0].is_over)
    assert served.failures == []


def test_a_worker_that_reads_no_answer_has_no_second_read(serve: Serve) -> None:
    source = Content()
    served = serve(source)
    for _ in range(200):
        served.ask(0, READ_MAX)
    assert wait_until(lambda: len(source.reads) == 1)
    sleep(0.2)
    assert len(source.reads) == 1
    assert not served.reads[0].waits_for_source


def test_all_inputs_of_a_run_together_have_two_answers_that_are_not_taken(serve: Serve) -> None:
    sources = [Content() for _ in range(8)]
    served = serve(*sources)
    for number in range(8):
        served.ask(0, READ_MAX, number)
    assert wait_until(lambda: sum(len(source.reads) for source in sources) == 2)
    sleep(0.2)
    asked = [number for number, source in enumerate(sources) if source.reads]
    assert len(asked) == 2
    for number in asked:
        assert served.take(READ_MAX, number) == CONTENT[:READ_MAX]
    assert wait_until(lambda: sum(len(source.reads) for source in sources) == 4)


def test_reads_above_the_rate_wait(serve: Serve) -> None:
    source = Content()
    served = serve(source, rate=20)
    began = time.monotonic()
    for number in range(30):
        served.ask(number, 1)
        assert served.take(1) == CONTENT[number : number + 1]
    assert time.monotonic() - began > 1.0


def test_a_storlet_that_waits_for_the_source_is_not_stalled(serve: Serve) -> None:
    seen: list[bool] = []
    source = Content()
    served = serve(source)
    source.during = lambda: seen.append(served.reads[0].waits_for_source)
    before = served.reads[0].last_progress
    served.ask(0, 5)
    assert served.take(5) == CONTENT[:5]
    assert seen == [True]
    assert not served.reads[0].waits_for_source
    assert served.reads[0].last_progress > before


def test_a_stop_during_a_read_releases_everything(serve: Serve) -> None:
    source = Content()
    source.during = lambda: sleep(60)
    served = serve(source)
    served.ask(0, 5)
    assert wait_until(lambda: source.reads)
    served.reads[0].stop()
    assert (served.reads[0].is_over, source.is_closed, served.failures) == (True, True, [])
    assert served.take(1) == b""
