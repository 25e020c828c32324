"""No row is dropped where a thread of the engine begins, or where the last line has no end.

The engine itself drops up to 2 MiB behind the last border of its threads if the first row there has
too few or too many values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.library.support import LibraryStorlet, shared
from tests.library.test_line_sieve import Blocks

pytestmark = pytest.mark.usefixtures("leftovers")

STARTS: Any = shared("thread_starts")
LAST: Any = shared("last_line")
SQL = LibraryStorlet("sql")
CONVERT = LibraryStorlet("convert")
PART = LibraryStorlet("sql-part")
MIB = 1 << 20
NAMES = b"a,b\n"
ROW = b"1234567,some text of some length\n"
COUNT = "SELECT count(*) AS n FROM input"
ERROR: Any = shared("sql_check").SqlError
FAULTS = [b"1\n", b"1,2,3\n", b'1\n1,"x"\n']


def bordered(row: bytes, after: int) -> bytes:
    """An object with ``row`` as the first whole one behind the last border."""
    before = NAMES + ROW * ((2 * MIB - len(NAMES)) // len(ROW) + 1)
    return before + row + ROW * after


@pytest.mark.parametrize("after", [0, 1, 1000])
@pytest.mark.parametrize("row", FAULTS)
@pytest.mark.parametrize(
    ("storlet", "given"),
    [
        (SQL, {"query": COUNT}),
        (SQL, {"query": "SELECT max(b) FROM input WHERE a = 1234567"}),
        (SQL, {"query": COUNT, "output": "partial"}),
        (PART, {"query": COUNT, "scan-range": "bytes=0-"}),
        (CONVERT, {"output": "jsonl"}),
    ],
)
def test_a_row_with_a_fault_is_no_end(
    storlet: LibraryStorlet, given: dict[str, str], row: bytes, after: int
) -> None:
    with pytest.raises(Exception, match=r"Expected Number of Columns: 2 Found: [13]"):
        storlet.run(bordered(row, after), given)


def test_text_that_is_not_utf_8_is_no_end() -> None:
    with pytest.raises(Exception, match="Invalid unicode"):
        CONVERT.run(bordered(b"1,\xff\n", 1000), {"output": "jsonl"})


def test_rows_without_faults_are_all_there() -> None:
    data = bordered(b'1,"x\ny"\n1,"\n"\n', 100)
    count = data.count(b"\n") - 3
    assert SQL.run(data, {"query": COUNT}).output == b"n\n%d\n" % count


def test_a_query_that_needs_few_rows_ends_early() -> None:
    data = ROW * 500_000 + FAULTS[0]
    given = {"query": "SELECT column0 FROM input LIMIT 2", "header": "false"}
    assert SQL.run(data, given).output == b"column0\n1234567\n1234567\n"


# --- random objects -------------------------------------------------------------------------------


@pytest.fixture
def chance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Buffers of some hundred rows, and threads of a hundred."""
    made = random.Random(request.param)  # noqa: S311  the same each time
    size = made.choice((1200, 2000, 3000))
    monkeypatch.setattr("sql_input.BUFFER_BYTES", size)
    monkeypatch.setattr("sql_input.MOST_LINE_BYTES", size // 2)
    monkeypatch.setattr("sql_input.HEAD_BYTES", 600)
    return made


def rows_of(chance: random.Random, width: int) -> Iterator[list[str]]:
    """Rows of values as CSV has them; the first ones have no quotes."""
    quotes, ends = chance.choice((0, 0.01, 0.3)), chance.choice((",", '""', "\n"))
    for number in range(chance.randint(60, 600)):
        row = ["x" * chance.randint(1, 9) for _ in range(width)]
        if number > 200 // width and chance.random() < quotes:
            row[0] = f'"{row[0]}{ends}"'
        yield row


@pytest.mark.parametrize("chance", range(60), indirect=True)
def test_all_rows_or_an_error(chance: random.Random) -> None:
    width, line_end = chance.choice((1, 2, 3)), chance.choice(("\n", "\r\n"))
    rows = list(rows_of(chance, width))
    has_fault = chance.random() < 0.6
    if has_fault:
        size = chance.choice([count for count in (1, 2, 3, 4) if count != width])
        rows.insert(chance.randint(len(rows) - 40, len(rows)), ["w"] * size)
    text = line_end.join(map(",".join, [list("abc"[:width]), *rows]))
    data = (text + line_end * chance.choice((0, 1))).encode()
    for parallel in ("true", "false"):
        given = {"types": "text", "parallel": parallel}
        queried, converted = {"query": COUNT, **given}, {"output": "jsonl", **given}
        if has_fault:
            for storlet, parameters in ((SQL, queried), (CONVERT, converted)):
                with pytest.raises(Exception, match=r"Expected Number of Columns|parallel=false"):
                    storlet.run(data, parameters)
            continue
        try:
            found = SQL.run(data, queried).output, CONVERT.run(data, converted).output.count(b"\n")
        except ERROR as error:
            # Line ends within quotes behind the head may be where a thread begins.
            assert parallel == "true" and "parallel=false" in str(error)  # noqa: PT017, PT018
        else:
            assert found == (b"n\n%d\n" % len(rows), len(rows))


# --- the parts ------------------------------------------------------------------------------------


def starts(data: bytes, head: int, block: int, mark: bytes = b'"') -> Any:
    """Buffers of 40 bytes, and threads of 10."""
    found = STARTS.ThreadStarts(Blocks(data[head:], block), data[:head], mark, 40, 5)
    while found.read(block):
        pass
    return found


@pytest.mark.parametrize("head", [0, 3, 25])
@pytest.mark.parametrize("block", [1, 7, 100])
@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a\nb\n", []),
        (b"0123456789", []),
        (b"01234567\n\nab\ncd\n", [b"cd\n"]),
        (b"01234567\n\n0123456789a\nb", [b"b"]),
        (b'01"34567\n89a\nb"\ncd\n', [b'b"\ncd\n', b"cd\n"]),
        (b'012345678\nab\ncd\n"', [b"cd\n"]),
        (b'012345678\nab\ncd"\nef\n', [b'cd"\nef\n', b"ef\n"]),
        (b"0" * 35 + b"1234" + b"\nabc\nd\n", [b"d\n"]),
    ],
)
def test_the_first_row_of_the_last_thread(
    data: bytes, rows: list[bytes], head: int, block: int
) -> None:
    assert starts(data, head, block).rows() == rows


def test_a_file_that_is_not_read_to_its_end_has_no_last_thread() -> None:
    data = b"01234567\n\nab\ncd\n"
    found = STARTS.ThreadStarts(Blocks(data, 100), b"", b"", 40, 5)
    assert found.read(100) == data
    assert found.rows() == []


@pytest.mark.parametrize(
    ("data", "line_end", "expected"),
    [
        (b"", b"\n", b""),
        (b"a", b"\n", b"a\n"),
        (b"a\n", b"\n", b"a\n"),
        (b"a", b"\r\n", b"a\r\n"),
        (b"a\r", b"\r\n", b"a\r\n"),
        (b"a\r\n", b"\r\n", b"a\r\n"),
        (b"a\r", b"\n", b"a\r"),
        (b"a", b"\r", b"a\r"),
        (b"a\r", b"\r", b"a\r"),
    ],
)
@pytest.mark.parametrize("head", [0, 1, 3])
def test_the_last_line_has_an_end(data: bytes, line_end: bytes, expected: bytes, head: int) -> None:
    file = LAST.LastLine(Blocks(data[head:], 1), line_end, data[:head])
    read = data[:head]
    while part := file.read(10):
        read += part
    assert read == expected
    assert file.read(10) == b""
