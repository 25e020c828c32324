"""A line that is longer than a row may be is named, also late in an object, and soon."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared
from tests.library.test_line_sieve import Blocks

pytestmark = pytest.mark.usefixtures("leftovers")

LINES: Any = shared("short_lines")
SQL = LibraryStorlet("sql")
CONVERT = LibraryStorlet("convert")
PART = LibraryStorlet("sql-part")
ROWS = b"".join(b"%d,some text\n" % number for number in range(150_000))
#: Longer than the buffers of the engine: its own errors are others.
LONG = b"1," + b"y" * (20 << 20) + b"\n"


TOO_LONG = r"^a line has more than 1048576 bytes$"


def failure() -> Exception:
    return EOFError("too long")


@given(
    st.lists(st.integers(0, 12), max_size=12),
    st.integers(0, 40),
    st.integers(1, 9),
    st.sampled_from([b"\n", b"\r"]),
)
def test_a_line_of_any_block_is_measured(
    sizes: list[int], cut: int, block: int, line_end: bytes
) -> None:
    data = b"".join(b"x" * size + line_end for size in sizes)
    if len(sizes) % 2:
        data = data[:-1]
    source = Blocks(data[cut:], block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LINES, "MOST_BYTES", 9)
        lines = LINES.ShortLines(source, failure, head=data[:cut], line_end=line_end)
        read = b""
        try:
            while part := lines.read(100):
                read += part
        except EOFError:
            late = [each for each in data.split(line_end) if len(each) > 9]
            assert late
        else:
            assert read == data[cut:]
            # One that ends in the head is that of another check.
            rest = data[data.rfind(line_end, 0, cut) + 1 :] if cut else data
            assert max(map(len, rest.split(line_end))) <= 9


@pytest.mark.parametrize("where", ["", " WHERE b = 'none'"])
@pytest.mark.parametrize("given", [{}, {"parallel": "false"}, {"types": "text"}])
def test_std_sql_names_a_long_line(given: dict[str, str], where: str) -> None:
    query = f"SELECT a FROM input{where}"  # noqa: S608 - of constants
    for data in (ROWS + LONG + ROWS, ROWS + LONG[:-1]):
        with pytest.raises(Exception, match=TOO_LONG):
            SQL.run(b"a,b\n" + data, {"query": query, **given})


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_std_convert_names_a_long_line(parallel: str) -> None:
    with pytest.raises(Exception, match=TOO_LONG):
        CONVERT.run(b"a,b\n" + ROWS + LONG, {"output": "jsonl", "parallel": parallel})


@pytest.mark.parametrize("quote", ['"', "none"])
def test_std_sql_part_names_a_long_line(quote: str) -> None:
    given = {"query": "SELECT a FROM input", "scan-range": "bytes=1000-", "quote": quote}
    with pytest.raises(Exception, match=TOO_LONG):
        PART.run(b"a,b\n" + ROWS + LONG, given)


def test_a_row_may_have_long_lines_within_quotes() -> None:
    """Together they have a MiB at most, and so has each."""
    row = b'1,"' + b"y" * 500_000 + b"\n" + b"y" * 500_000 + b'"\n'
    ran = SQL.run(b"a,b\n" + ROWS + row, {"query": "SELECT max(length(b)) FROM input"})
    assert ran.output.endswith(b"\n1000001\n")
