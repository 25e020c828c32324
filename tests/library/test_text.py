"""``std:text`` gives what a slow reference gives, for all sizes of blocks."""

from __future__ import annotations

import io
import itertools
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, Target, shared

STORLET = LibraryStorlet("text")
BLOCKS_OF_LINES = shared("line_blocks")
LINES = st.lists(st.sampled_from([b"", b"a", b"b", b"a b", b"\tx\r", "שלום".encode(), b"\xff\0"]))
TEXTS = st.tuples(LINES, st.booleans()).map(
    lambda drawn: b"\n".join(drawn[0]) + (b"\n" if drawn[1] and drawn[0] else b"")
)
BLOCKS = st.integers(1, 12)


def output(text: bytes, block: int | None = None, **parameters: object) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        if block is not None:
            patch.setattr(BLOCKS_OF_LINES, "BLOCK_BYTES", block)
        return STORLET.run(text, {name: str(value) for name, value in parameters.items()}).output


def failure(text: bytes, **parameters: object) -> str:
    with pytest.raises((STORLET.module.TextError, BLOCKS_OF_LINES.LineError)) as caught:
        output(text, **parameters)
    return str(caught.value)


def lines_of(text: bytes) -> list[bytes]:
    """All lines, without their ends."""
    lines = text.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@given(text=TEXTS, block=BLOCKS, count=st.integers(0, 8))
def test_head_and_tail(text: bytes, block: int, count: int) -> None:
    lines = lines_of(text)
    assert output(text, block, do="head", count=count) == joined(lines[:count])
    last = lines[max(len(lines) - count, 0) :]
    assert output(text, block, do="tail", count=count) == joined(last)


@given(text=TEXTS, block=BLOCKS)
def test_uniq(text: bytes, block: int) -> None:
    groups = [(line, len(list(group))) for line, group in itertools.groupby(lines_of(text))]
    assert output(text, block, do="uniq") == joined([line for line, _ in groups])
    counted = joined([b"%s\t%d" % group for group in groups])
    assert output(text, block, do="uniq", counts=True) == counted


@given(text=TEXTS, block=BLOCKS)
def test_wc(text: bytes, block: int) -> None:
    characters = sum(1 for byte in text if not 0x80 <= byte < 0xC0)
    assert output(text, block, do="wc").decode().split() == [
        "bytes", str(len(text)), "characters", str(characters),
        "lines", str(text.count(b"\n")), "words", str(len(text.split())),
    ]  # fmt: skip


@given(text=TEXTS, block=BLOCKS, count=st.integers(0, 8), seed=st.integers(0, 100))
def test_a_sample_has_lines_of_the_text_in_their_order(
    text: bytes, block: int, count: int, seed: int
) -> None:
    lines = lines_of(text)
    found = lines_of(output(text, block, do="sample", count=count, seed=seed))
    assert len(found) == min(count, len(lines))
    rest = iter(lines)
    assert all(line in rest for line in found)
    assert joined(found) == output(text, do="sample", count=count, seed=seed)


def test_each_line_has_the_same_chance_to_be_in_a_sample() -> None:
    text = joined([b"%d" % number for number in range(20)])
    seen: Counter[bytes] = Counter()
    for seed in range(2000):
        seen.update(lines_of(output(text, do="sample", count=4, seed=seed)))
    # 400 of each are expected, with a standard deviation of 18.
    assert len(seen) == 20
    assert 310 < min(seen.values()) < max(seen.values()) < 490


@given(
    text=st.text(max_size=50),
    charset=st.sampled_from(["utf-8", "utf-16", "utf-32-be", "utf-7", "gb18030", "utf-8-sig"]),
    block=BLOCKS,
)
def test_to_utf8(text: str, charset: str, block: int) -> None:
    expected = text.encode(charset).decode(charset).removeprefix("\ufeff").encode()
    assert output(text.encode(charset), block, do="to-utf8", charset=charset) == expected


@given(data=st.binary(max_size=40), block=BLOCKS)
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-8", "shift_jis", "koi8-r"])
def test_bytes_that_are_not_in_the_charset(charset: str, data: bytes, block: int) -> None:
    expected = data.decode(charset, "replace").removeprefix("\ufeff").encode()
    assert output(data, block, do="to-utf8", charset=charset, errors="replace") == expected
    try:
        data.decode(charset)
        place = None
    except UnicodeDecodeError as error:
        place = error.start
    if place is None:
        assert output(data, block, do="to-utf8", charset=charset) == expected
    else:
        text = failure(data, block=block, do="to-utf8", charset=charset)
        assert text.startswith(f"the text is not {charset} at byte {place}: ")


@pytest.mark.parametrize("charset", ["zlib", "hex", "rot13", "nonsense", "idna", "undefined", "\0"])
def test_other_codecs_are_refused(charset: str) -> None:
    assert failure(b"text", do="to-utf8", charset=charset).startswith(f"charset: {charset}: ")


def test_the_charset_is_required() -> None:
    assert "the parameter charset is missing" in failure(b"text", do="to-utf8")


def test_long_lines_and_many_bytes_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BLOCKS_OF_LINES, "MOST_LINE_BYTES", 1000)
    monkeypatch.setattr(STORLET.module, "MOST_KEPT_BYTES", 5000)
    monkeypatch.setattr(BLOCKS_OF_LINES, "BLOCK_BYTES", 100)
    long = b"x" * 1200
    for name in ("uniq", "sample"):
        assert "a line of more than 1000 bytes" in failure(long, do=name)
    many = (b"x" * 500 + b"\n") * 20
    for name in ("tail", "sample"):
        assert "more than 5000 bytes" in failure(many, do=name, count=15)
        assert len(output(many, do=name, count=9)) == 9 * 501
    assert output(long, do="head") == long + b"\n"


@pytest.mark.parametrize("name", ["head", "tail", "sample", "uniq", "wc"])
def test_the_memory_does_not_depend_on_the_size_of_the_object(name: str) -> None:
    text = joined([b"%d" % number for number in range(100)]) * 6000
    tracemalloc.start()
    try:
        found = output(text, do=name, count=5)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The lines of a block are kept as objects of Python.
    assert most - len(found) < 12 << 20


def test_half_of_a_surrogate_pair_is_an_error() -> None:
    text = "\ud800".encode("utf-7", "surrogatepass")
    assert "half of a surrogate pair" in failure(text, do="to-utf8", charset="utf-7")
    assert output(text, do="to-utf8", charset="utf-7", errors="replace") == "\ufffd".encode()


@given(text=TEXTS, block=BLOCKS, reverse=st.booleans())
def test_sort_by_bytes(text: bytes, block: int, reverse: bool) -> None:
    expected = sorted(lines_of(text), reverse=reverse)
    assert output(text, block, do="sort", reverse=reverse) == joined(expected)


NUMBERS = st.sampled_from(["0", "-0", "1", "1.0", " 2 ", "-3.5", "1e3", "999", "+7", "inf", "-inf"])


@given(lines=st.lists(NUMBERS), block=BLOCKS, reverse=st.booleans())
def test_sort_by_number_keeps_equal_ones_in_their_order(
    lines: list[str], block: int, reverse: bool
) -> None:
    text = "\n".join(lines).encode()
    expected = [line.encode() for line in sorted(lines, key=float, reverse=reverse)]
    found = output(text, block, do="sort", by="number", reverse=reverse)
    assert found == joined(expected)


@pytest.mark.parametrize("line", ["", "x", "1_0", "nan", "-nan", "snan", "0x1", "1 2", "\u0661"])
def test_a_line_that_is_no_number_is_named(line: str) -> None:
    text = f"1\n{line}\n2\n".encode()
    assert "sort: line 2 is no number" in failure(text, do="sort", by="number")


def test_sort_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORLET.module, "MOST_KEPT_BYTES", 6)
    assert output(b"c\nb\na\n", do="sort") == b"a\nb\nc\n"
    assert "sort: the text has more than 6 bytes" in failure(b"c\nb\naa\n", do="sort")
    monkeypatch.setattr(STORLET.module, "MOST_SORTED_LINES", 2)
    assert "or 2 lines" in failure(b"c\nb\na\n", do="sort")


def parts_of(text: bytes, block: int, outputs: int, **parameters: object) -> list[bytes]:
    """The outputs of a run."""
    targets = [Target() for _ in range(outputs)]
    values = STORLET.values({name: str(value) for name, value in parameters.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCKS_OF_LINES, "BLOCK_BYTES", block)
        STORLET.module.Text(None)([io.BytesIO(text)], targets, values)
    return [bytes(target.data) for target in targets]


@given(text=TEXTS, block=BLOCKS, outputs=st.integers(1, 4), count=st.integers(1, 4))
def test_split(text: bytes, block: int, outputs: int, count: int) -> None:
    lines = lines_of(text)
    starts = [place * count for place in range(outputs)]
    ends = [*starts[1:], len(lines)]
    expected = [joined(lines[start:end]) for start, end in zip(starts, ends, strict=True)]
    assert parts_of(text, block, outputs, do="split", count=count) == expected


def test_bad_numbers_of_outputs_are_refused() -> None:
    with pytest.raises(STORLET.module.TextError, match="do=head has one output"):
        parts_of(b"a\n", 8, 2, do="head")
    with pytest.raises(STORLET.module.TextError, match="split: count: want 1 line"):
        parts_of(b"a\n", 8, 2, do="split", count=0)
