"""The API of authors of Python storlets, member by member, without any process."""

from __future__ import annotations

import codecs
import csv
import fcntl
import gzip
import io
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon import author


def pipe_with(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


def an_input(data: bytes, metadata: Mapping[str, str] | None = None) -> author.StorletInputFile:
    return author.StorletInputFile(metadata or {}, pipe_with(data))


class Target:
    """An output, what it announced, and what came through its pipe."""

    def __init__(self, metadata_max: int = 4096) -> None:
        reading, writing = os.pipe()
        announced: list[Mapping[str, str]] = []

        # Not a method: the output would refer to this object, and the garbage collector may
        # finalise the output first.
        def announce(metadata: Mapping[str, str]) -> None:
            os.set_blocking(reading, False)
            with pytest.raises(BlockingIOError):
                os.read(reading, 1)  # never after data
            announced.append(metadata)

        self.reading, self.announced = reading, announced
        self.out = author.StorletOutputFile(writing, metadata_max, announce)

    def so_far(self) -> bytes:
        os.set_blocking(self.reading, False)
        try:
            return os.read(self.reading, 1 << 20)
        except BlockingIOError:
            return b""

    def __del__(self) -> None:
        self.out.abandon()
        os.close(self.reading)


# inputs


def test_every_read_method_returns_the_bytes() -> None:
    with an_input(b"0123456789\nab\ncd\nef\ngh") as source:
        assert source.read(4) == b"0123"
        assert source.readline() == b"456789\n"
        assert source.readline(1) == b"a"
        buffer = bytearray(4)
        assert source.readinto(buffer) == 4
        assert bytes(buffer) == b"b\ncd"
        assert source.readlines(1) == [b"\n", b"ef\n"]
        assert source.next() == b"gh"
        with pytest.raises(StopIteration):
            next(source)
        assert source.read() == b""
        assert list(source) == []
    assert source.closed
    source.close()


def test_iteration_gives_lines() -> None:
    assert list(an_input(b"a\nb\n\nc")) == [b"a\n", b"b\n", b"\n", b"c"]


def test_a_read_of_a_number_of_bytes_returns_them_all_from_a_slow_pipe() -> None:
    reading, writing = os.pipe()
    source = author.StorletInputFile({}, reading)
    if os.fork() == 0:
        for part in (b"ab", b"cd", b"e"):
            os.write(writing, part)
        os._exit(0)
    os.close(writing)
    assert source.read(4) == b"abcd"
    assert source.read(4) == b"e"
    os.wait()


def test_metadata_of_an_input_is_a_copy() -> None:
    source = an_input(b"", {"a": "b"})
    source.get_metadata()["a"] = "c"
    assert source.get_metadata() == {"a": "b"}


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda f: f.seek(0),
        lambda f: f.write(b""),
        lambda f: f.writelines([]),
        lambda f: f.flush(),
        lambda f: f.set_metadata({}),
    ],
)
def test_unsupported_operations_of_an_input_raise(forbidden: Callable[[Any], Any]) -> None:
    with an_input(b"") as source, pytest.raises(NotImplementedError):
        forbidden(source)


def test_the_librarys_readers_take_an_input() -> None:
    assert gzip.GzipFile(fileobj=an_input(gzip.compress(b"data"))).read() == b"data"
    text = codecs.getreader("utf-8")(an_input("é;1\nß;2\n".encode()))
    assert list(csv.reader(text, delimiter=";")) == [["é", "1"], ["ß", "2"]]


def test_fileno_is_the_descriptor_that_was_given() -> None:
    fd = pipe_with(b"abc")
    source = author.StorletInputFile({}, fd)
    assert source.fileno() == fd
    assert os.read(source.fileno(), 2) == b"ab"
    assert source.read() == b"c"


@pytest.fixture
def digits(tmp_path: Path) -> int:
    (tmp_path / "digits").write_bytes(b"0123456789" * 100_000)
    return os.open(tmp_path / "digits", os.O_RDONLY)


@pytest.mark.parametrize(
    ("start", "end", "size"), [(0, 0, 1), (5, 14, 10), (999_999, 2_000_000, 1), (10, None, 999_990)]
)
@pytest.mark.parametrize("how", ["all", "parts", "into", "lines"])
def test_a_range_is_exactly_its_bytes(
    digits: int, start: int, end: int | None, size: int, how: str
) -> None:
    whole = b"0123456789" * 100_000
    with author.StorletRangeInputFile({"a": "b"}, digits, start, end) as source:
        if how == "all":
            data = source.read()
        elif how == "parts":
            data = b"".join(iter(lambda: source.read(300_001), b""))
        elif how == "lines":
            data = b"".join(source)
        else:
            buffer = bytearray(1_000_001)
            data = bytes(buffer[: source.readinto(buffer)])
        assert len(data) == size
        assert data == whole[start:][:size]
        assert source.read() == b""
        assert source.get_metadata() == {"a": "b"}


def test_a_range_of_a_pipe_is_refused() -> None:
    fd = pipe_with(b"0123")
    with pytest.raises(OSError, match="seek"):
        author.StorletRangeInputFile({}, fd, 1, 2)
    os.close(fd)


# output


def test_metadata_then_data() -> None:
    target = Target()
    target.out.set_metadata({"a": "b"})
    assert target.announced == [{"a": "b"}]
    assert target.out.get_metadata() == {"a": "b"}
    target.out.write(b"one ")
    target.out.writelines([b"two ", b"three"])
    target.out.close()
    assert target.so_far() == b"one two three"
    assert target.announced == [{"a": "b"}]


@pytest.mark.parametrize(
    "first",
    [
        lambda out: out.write(b"x"),
        lambda out: out.writelines([b"x"]),
        lambda out: out.fileno(),
        lambda out: out.close(),
    ],
)
def test_missing_metadata_is_sent_empty_before_the_first_byte(
    first: Callable[[Any], Any],
) -> None:
    target = Target()
    with pytest.raises(OSError, match="Metadata is not set yet"):
        target.out.get_metadata()
    first(target.out)
    assert target.announced == [{}]
    assert target.out.get_metadata() == {}
    with pytest.raises(OSError, match="Sending metadata twice is not allowed"):
        target.out.set_metadata({})


def test_setting_metadata_twice_raises() -> None:
    target = Target()
    target.out.set_metadata({})
    with pytest.raises(OSError, match="Sending metadata twice is not allowed"):
        target.out.set_metadata({})
    assert target.announced == [{}]


def test_metadata_becomes_text() -> None:
    target = Target()
    given = {
        "int": 5,
        "float": 0.5,
        "true": True,
        "none": None,
        "list": [1, "é"],
        "dict": {"a": 1},
        7: "key",
    }
    target.out.set_metadata(given)  # type: ignore[arg-type]
    assert target.announced == [
        {
            "int": "5",
            "float": "0.5",
            "true": "True",
            "list": '[1, "é"]',
            "dict": '{"a": 1}',
            "7": "key",
        }
    ]
    assert target.out.get_metadata() == given


@pytest.mark.parametrize(
    ("bad", "error"),
    [({"a": object()}, TypeError), ({"a": "\ud800"}, UnicodeError), (5, TypeError)],
)
def test_metadata_that_cannot_be_sent_is_the_authors_error(
    bad: Any, error: type[Exception]
) -> None:
    target = Target()
    with pytest.raises(error):
        target.out.set_metadata(bad)
    target.out.set_metadata({"then": "right"})
    assert target.announced == [{"then": "right"}]


def test_metadata_has_a_limit_in_bytes_of_its_json() -> None:
    target = Target(metadata_max=20)
    with pytest.raises(author.MetadataTooLargeError, match="21 bytes, more than 20"):
        target.out.set_metadata({"a": "é" * 6 + "x"})
    target.out.set_metadata({"a": "é" * 6})


def test_slow_writes_go_out_at_once_and_quick_ones_together() -> None:
    target = Target()
    target.out.write(b"first")
    assert target.so_far() == b"first"
    target.out._flush_at = math.inf  # however late the next one comes
    target.out.write(b"second")
    assert target.so_far() == b""
    target.out.flush()
    assert target.so_far() == b"second"
    target.out._flush_at = 0
    target.out.write(b"later")
    assert target.so_far() == b"later"


def test_an_abandoned_output_writes_nothing_more() -> None:
    target = Target()
    target.out.write(b"first")
    target.out._flush_at = math.inf
    target.out.write(b"second")
    target.out.abandon()
    assert target.out.closed
    target.out.close()
    assert target.so_far() == b"first"


def test_fileno_first_flushes_the_buffer() -> None:
    target = Target()
    target.out.write(b"a")
    target.out.write(b"b")
    os.write(target.out.fileno(), b"c")
    assert target.so_far() == b"abc"


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda f: f.read(),
        lambda f: f.readline(),
        lambda f: f.readlines(),
        next,
        lambda f: f.seek(0),
    ],
)
def test_unsupported_operations_of_an_output_raise(forbidden: Callable[[Any], Any]) -> None:
    target = Target()
    with pytest.raises(NotImplementedError):
        forbidden(target.out)


def test_the_librarys_writers_take_an_output() -> None:
    target = Target()
    text = io.TextIOWrapper(target.out, "utf-8", newline="")
    csv.writer(text).writerow(["é", 1])
    text.close()
    assert target.so_far() == "é,1\r\n".encode()


# log


@pytest.fixture
def log_fd() -> Iterator[int]:
    fd = os.memfd_create("log", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 200)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    yield fd
    os.close(fd)


def content(fd: int) -> str:
    return os.pread(fd, os.lseek(fd, 0, os.SEEK_CUR), 0).decode()


def test_lines_of_the_logger(log_fd: int) -> None:
    with author.StorletLogger("m.C", author.LogFile(log_fd, 200)) as logger:
        logger.debug("a")
        logger.info("b %d %s", 1, "x")
        logger.warn(5)  # noqa: G010  authors use it
        logger.warning("c %d", "no number")
        logger.error("100%")
        assert not logger.closed
    logger.info("after the end")
    assert logger.closed
    assert content(log_fd).splitlines() == [
        "m.C DEBUG: a",
        "m.C INFO: b 1 x",
        "m.C WARN: 5",
        "m.C WARN: c %d ('no number',)",
        "m.C ERROR: 100%",
    ]


def test_the_loggers_exception_adds_the_traceback(log_fd: int) -> None:
    logger = author.StorletLogger("m.C", author.LogFile(log_fd, 200))
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        logger.exception("it failed")
    assert content(log_fd).startswith("m.C ERROR: it failed\nTraceback (most recent call last):\n")


def test_a_logger_without_a_log_takes_everything() -> None:
    logger = author.StorletLogger("m.C", None)
    logger.info("x")
    logger.exception("y")  # noqa: LOG004  no exception, no traceback


@pytest.mark.parametrize("line", [1, 10, 173, 174, 500])
def test_a_full_log_ends_with_a_note(log_fd: int, line: int) -> None:
    log = author.LogFile(log_fd, 200)
    for _ in range(300):
        log.write(b"x" * line)
    text = content(log_fd)
    assert len(text) <= 200
    assert text.endswith("\nlog truncated at 200 bytes\n")
    assert set(text[: text.index("\n")]) <= {"x"}


def test_a_log_filled_by_children_ends_with_the_note(log_fd: int) -> None:
    log = author.LogFile(log_fd, 200)
    os.write(log_fd, b"c" * 199)
    log.write(b"ours\n")
    assert content(log_fd).endswith("c\nlog truncated at 200 bytes\n")
    assert len(content(log_fd)) == 200


def test_a_log_that_cannot_be_written_is_ignored() -> None:
    reading = pipe_with(b"")
    author.LogFile(reading, 200).write(b"x")


def test_a_log_raises_after_the_end_of_its_invocation(log_fd: int) -> None:
    log = author.LogFile(log_fd, 200)
    logger = author.StorletLogger("m.C", log)
    logger.info("before")
    log.end()
    assert logger.closed
    for use in (lambda: logger.info("after"), log.fileno, lambda: log.write(b"after")):
        with pytest.raises(ValueError, match="invocation has ended"):
            use()
    assert content(log_fd) == "m.C INFO: before\n"


def test_the_raw_file_of_an_output_is_closed_even_if_the_storlet_detached_it() -> None:
    target = Target()
    raw = target.out.detach()
    target.out.abandon()
    assert raw.closed


def test_a_descriptor_that_the_caller_keeps_is_not_closed() -> None:
    reading, writing = os.pipe()
    out = author.StorletOutputFile(writing, 4096, lambda _metadata: None, closefd=False)
    out.write(b"all")
    out.close()
    os.write(writing, b" of it")
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        assert source.read() == b"all of it"
