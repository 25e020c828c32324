"""``std:grep`` gives what a search of each line gives, and what GNU grep prints as context."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("grep")
PATTERNS = [
    "", "a", "ab", "A", "a|b", "ab|a|c", "a|", "|", "bb|B|a ", "^a", "b$", "^$", "^", "$", "a.b", ".", "a*", "[ab]c", "[^a]", "[^a]*b",
    r"\s", r"\sa", r"a\s+b", r"\bab\b", r"\Ba", r"a\Z", r"\Aa", r"a\n", r"\r", "(a)\\1", "(a|b)*c",
    "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?i)AB", "(?s)a.", "(?s:a.b)", "(?m)^b", "a{2,3}",
    r"\W", r"\D+b", r"[\s]b", r"[^\S]b", "x*$", "(?x) a b", "(?-i:a)b", "a?b", r"\s?a", "(?P<n>a)(?P=n)",
    "(a)?(?(1)b|c)", "[^b]\\b", "a+?b", "[\\n]a", "(?:a\\n)*b", "\u05e9",
]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from([b"a", b"b", b"c", b" ", b"A", b"\n", b"\n", b"\r", b"\r\n", "ש".encode()]),
    max_size=30,
).map(b"".join)
BLOCKS = st.integers(1, 20)


def output(text: bytes, block: int | None = None, **parameters: object) -> bytes:
    given = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
    with pytest.MonkeyPatch.context() as patch:
        if block is not None:
            patch.setattr(shared("line_blocks"), "BLOCK_BYTES", block)
        return STORLET.run(text, given).output


def lines_of(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return [line + b"\n" for line in (lines if lines[-1] else lines[:-1])]


def selected(
    text: bytes, pattern: str, *, invert: bool = False, fixed: bool = False, fold: bool = False
) -> list[bytes]:
    """The slow reference."""
    source = pattern.encode()
    expression = re.compile(re.escape(source) if fixed else source, re.IGNORECASE if fold else 0)
    return [
        line
        for line in lines_of(text)
        if (expression.search(line.rstrip(b"\r\n")) is None) is invert
    ]


@given(
    text=TEXTS,
    block=BLOCKS,
    invert=st.booleans(),
    fixed=st.booleans(),
    fold=st.booleans(),
    most=st.integers(0, 4),
)
@example(text=b"ab\r\nb\n", block=20, invert=False, fixed=False, fold=False, most=0)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_line_is_searched_by_itself(
    pattern: str, text: bytes, block: int, *, invert: bool, fixed: bool, fold: bool, most: int
) -> None:
    expected = selected(text, pattern, invert=invert, fixed=fixed, fold=fold)
    limited = expected[:most] if most else expected
    given = {"pattern": pattern, "invert": invert, "fixed": fixed, "ignore_case": fold}
    found = output(text, block, **given, max_count=most)
    assert found == b"".join(limited)
    number = output(text, block, **given, max_count=most, count=True)
    assert number == b"%d\n" % len(limited)


@given(
    text=st.lists(st.sampled_from(["a", "b", "ab", "", "c d"]), max_size=25),
    block=BLOCKS,
    before=st.integers(0, 3),
    after=st.integers(0, 3),
    marks=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_context_and_places_are_those_of_gnu_grep(
    tmp_path_factory: pytest.TempPathFactory,
    text: list[str],
    block: int,
    before: int,
    after: int,
    marks: tuple[bool, bool, bool],
) -> None:
    data = "".join(line + "\n" for line in text).encode()
    file: Path = tmp_path_factory.getbasetemp() / "text"
    file.write_bytes(data)
    options = ["-" + letter for letter, is_set in zip("nbv", marks, strict=True) if is_set]
    context = ["-B", str(before), "-A", str(after)] if before or after else []
    grep = ["/usr/bin/grep", "-a", *options, *context, "a", str(file)]
    expected = subprocess.run(grep, capture_output=True, check=False).stdout
    given = {"line_numbers": marks[0], "byte_offsets": marks[1], "invert": marks[2]}
    assert output(data, block, pattern="a", before=before, after=after, **given) == expected


@given(
    block=st.lists(st.sampled_from([b"a", b"b", b"\0"]), max_size=30).map(b"".join),
    text=st.lists(st.sampled_from([b"a", b"b", b"\0"]), max_size=4).map(b"".join),
    start=st.integers(0, 30),
)
def test_places_are_those_of_find(block: bytes, text: bytes, start: int) -> None:
    start = min(start, len(block))
    assert shared("matching").searcher(block)(text, start) == block.find(text, start)


def test_the_last_line_of_a_limit_has_its_context() -> None:
    text = b"a\nb\na\nc\nd\n"
    found = output(text, pattern="a", max_count=1, after=3, line_numbers=True)
    assert found == b"1:a\n2-b\n3-a\n4-c\n"
    assert output(text, pattern="a", max_count=2, after=1) == b"a\nb\na\nc\n"


def test_the_rest_of_the_object_is_not_read_after_the_limit() -> None:
    text = b"a\n" + b"x" * (9 << 20)
    assert output(text, pattern="a", max_count=1) == b"a\n"
    with pytest.raises(ValueError, match="a line of more than 8388608 bytes: this is not text"):
        output(text, pattern="a")


def test_a_number_excludes_places_and_context() -> None:
    with pytest.raises(ValueError, match="count has no lines: leave out after, byte-offsets"):
        output(b"a\n", pattern="a", count=True, after=1, byte_offsets=True)


@pytest.mark.parametrize(
    ("pattern", "is_fit"),
    [
        ("WARN|ERROR", True), ("^[0-9]+ .*fail(ed|s)$", True), (r"\bid=\w+", True),
        ("[^,]*x", False), (r"\s+x", False), (r"a\Z", False), ("a(?!b)", False), ("(?s)a.*", False),
    ],
)  # fmt: skip
def test_usual_patterns_are_searched_in_whole_blocks(pattern: str, is_fit: bool) -> None:
    fits = STORLET.module.matching.is_fit_for_blocks
    assert fits(pattern.encode(), 0) is is_fit


@pytest.mark.parametrize("kind", [gzip, bz2, lzma])
def test_compressed_objects(kind: Any) -> None:
    text = b"".join(b"line %d\n" % number for number in range(100_000))
    packed = kind.compress(text)
    name = {"gzip": "gzip", "bz2": "bz2", "lzma": "xz"}[kind.__name__]
    found = output(packed, pattern="7777$", compression=name, byte_offsets=True)
    assert output(packed, pattern="7777$", byte_offsets=True) == found
    assert output(packed, pattern="7777$", compression="none") == b""
    assert found == b"".join(
        b"%d:%s" % (text.index(line), line)
        for line in (
            b"line %d7777\n" % number if number else b"line 7777\n" for number in range(10)
        )
    )
    with pytest.raises(ValueError, match="the object is cut"):
        output(packed[:-9], pattern="7777$")
    with pytest.raises(ValueError, match="the object is cut"):
        output(packed[:7], pattern="7777$")


@pytest.mark.parametrize("text", [b"", b"BZh9 is no bz2\n", b"\x1f\n", b"x" * 99_999 + b"\n"])
def test_text_that_begins_like_a_format_is_searched_as_it_is(text: bytes) -> None:
    assert output(text, pattern=".") == text


SLOW = b"a" * 200 + b"\n"
SECONDS = 0.1


def slow_output(text: bytes, **parameters: object) -> bytes:
    """The output where one line may take :data:`SECONDS`."""
    clock = STORLET.module.Clock
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STORLET.module, "Clock", lambda _: clock(SECONDS))
        return output(text, **parameters)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*(?!a)b", "((a*)*)*\\Zb"])
@pytest.mark.parametrize("invert", [False, True])
def test_a_line_that_takes_too_long(pattern: str, invert: bool) -> None:
    before = b"b\nab\n" * 1000
    with pytest.raises(ValueError, match="the search of the line") as raised:
        slow_output(before + SLOW + b"ab\n", pattern=pattern, invert=invert)
    assert f"line at byte {len(before)} takes more than 0.1 s (line-seconds)" in str(raised.value)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


@pytest.mark.parametrize("most", [0, 7])
def test_a_block_of_slow_lines_is_continued_line_by_line(most: int) -> None:
    """Each line takes a part of the time, and all together more."""
    pattern = "(a+)+$"
    line = b"a" * 16 + b"b\n"
    text = b"".join((line * 10, b"aaa\n") * 8)
    started = time.process_time()
    found = slow_output(text, pattern=pattern, max_count=most)
    assert time.process_time() - started > SECONDS
    assert found == b"aaa\n" * (most or 8)


@pytest.mark.parametrize("pattern", ["a*b", "(?i)a*b", "(?x)a*b # all", ".*.*x", "a{0,5000}b"])
def test_a_long_line_that_takes_a_quadratic_time(pattern: str) -> None:
    """The matcher does not look for signals between two starts."""
    started = time.process_time()
    with pytest.raises(ValueError, match=r"the line at byte 3 takes more than 0\.1 s"):
        slow_output(b"ab\n" + b"a" * 400_000 + b"\n", pattern=pattern)
    assert time.process_time() - started < 10 * SECONDS


@given(
    pattern=st.sampled_from(
        [
            "a*b",
            "a*b$",
            "^a*b",
            "(?i)A*B",
            "(?x) a* b # c",
            "(a|b)*c",
            "x*",
            "^$",
            r"\ba*\b",
            "c*?$",
        ]
    ),
    lines=st.lists(st.text("abc \r", max_size=9).map(str.encode), max_size=8),
    is_last_cut=st.booleans(),
    long=st.integers(1, 9),
    starts=st.integers(1, 5),
)
def test_long_lines_are_found_as_others(
    pattern: str, lines: list[bytes], is_last_cut: bool, long: int, starts: int
) -> None:
    data = b"\n".join(lines) + (b"" if is_last_cut else b"\n")
    expected = output(data, pattern=pattern)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("line_time.LONG_LINE_BYTES", long)
        patch.setattr("matching.STARTS", starts)
        assert output(data, pattern=pattern) == expected


def test_another_thread_has_no_limit_of_a_line() -> None:
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(output(b"ab\nb\n", pattern="a+b")))
    thread.start()
    thread.join()
    assert found == [b"ab\n"]
