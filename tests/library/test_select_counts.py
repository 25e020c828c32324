"""S3 Select of CSV has each record once, wherever blocks of any size and buffers of the engine end.

Each case is a random object of several buffers, in blocks of random sizes, with the queries in a
random order in one process.  The reference is the list of records that the object is written from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.library import test_s3_select as whole
from tests.library.support import Target

pytestmark = pytest.mark.usefixtures("leftovers")

MODULE: Any = whole.MODULE
KEY = "key"
ENDS = (b"\n", b"\r\n")
#: How a source gives its blocks.
WHOLE, ANY, TINY = range(3)


@dataclass(frozen=True)
class Table:
    """An object, and the values in the first column of its records."""

    data: bytes
    source: dict[str, Any]
    firsts: Sequence[str]


class Source:
    """A file whose reads end anywhere."""

    def __init__(self, data: bytes, chance: random.Random, way: int) -> None:
        self._data, self._chance, self._way, self._at = data, chance, way, 0

    def read(self, size: int) -> bytes:
        most = {WHOLE: size, ANY: self._chance.randint(1, size), TINY: self._chance.randint(1, 40)}
        start, self._at = self._at, self._at + min(most[self._way], size)
        return self._data[start : self._at]


def table_of(chance: random.Random, buffer_bytes: int) -> Table:
    """An object of up to three buffers, which often ends at the end of one."""
    line_end, width = chance.choice(ENDS), chance.choice((1, 1, 2, 4))
    source = {"header": chance.choice(("NONE", "USE", "IGNORE")), "comment": chance.choice("# ")}
    source["comment"] = source["comment"].strip()
    has_lines = chance.random() < 0.5
    if has_lines:
        source["quoted_records"] = True
    most, keys, extras = chance.randint(1, 40), chance.choice((0.001, 0.3)), chance.choice((0, 0.1))
    rows = [[value_of(chance, most, has_lines) for _ in range(width)] for _ in range(30)]
    encoded = {id(row): line_of(row, line_end) for row in rows}
    parts, values, size = list[bytes](), list[str](), 0
    total = chance.choice((1, 2, 3)) * buffer_bytes + chance.randint(-3, 3)
    while size < total:
        row = [chance.choice((KEY, f"a {KEY}", "k")), *rows[0][1:]]
        if chance.random() >= keys:
            row = chance.choice(rows)
        if chance.random() < extras:
            parts.append(line_end)
        if source["comment"] and chance.random() < extras:
            parts.append(b"#" + b"c" * chance.randint(0, most) + line_end)
        parts.append(encoded.get(id(row)) or line_of(row, line_end))
        values.append(row[0])
        size = size + len(parts[-1])
    missing = (-sum(map(len, parts)) + chance.randint(-3, 3)) % buffer_bytes
    # One long value moves the end of the object to the end of a buffer.
    parts.append(b"z" * min(missing, buffer_bytes // 4) + b"z")
    values.append(parts[-1].decode())
    parts += [line_end] * chance.choice((0, 1, 2))
    firsts = values if source["header"] == "NONE" else values[1:]
    return Table(b"".join(parts), source, firsts)


def line_of(row: list[str], line_end: bytes) -> bytes:
    return ",".join(map(written, row)).encode() + line_end


def value_of(chance: random.Random, most: int, has_lines: bool) -> str:
    characters = 'xyz ",' + "\n\r" * has_lines
    if chance.random() < 0.7:
        characters = "xyz"
    # An empty line is no record.
    return "x" + "".join(chance.choice(characters) for _ in range(chance.randint(0, most)))


def written(value: str) -> str:
    is_plain = not set(value) & set('",\n\r')
    return value if is_plain else '"' + value.replace('"', '""') + '"'


def answer(table: Table, query: str, chance: random.Random) -> bytes:
    request = {"expression": query, "input": table.source, "output": whole.CSV_OUT}
    target = Target()
    source = Source(table.data, chance, chance.choice((WHOLE, ANY, TINY)))
    given = whole.STORLET.values({"request": json.dumps(request)})
    MODULE.S3Select(None)([source], [target], given)
    *found, (kind, _) = whole.frames(bytes(target.data))
    assert kind == "S", found
    return b"".join(data for kind, data in found if kind == "R")


@pytest.mark.parametrize("seed", range(40))
def test_each_record_is_there_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)  # noqa: S311  the same each time
    buffer_bytes = chance.choice((4096, 10_000, 40_000))
    monkeypatch.setattr("select_tables.BUFFER_BYTES", buffer_bytes)
    monkeypatch.setattr("select_tables.MOST_RECORD_BYTES", buffer_bytes // 2)
    monkeypatch.setattr("select_tables.HEAD_BYTES", buffer_bytes // 2)
    monkeypatch.setattr("select_streams.BLOCK_BYTES", chance.randint(500, buffer_bytes))
    monkeypatch.setattr("object_stream.BLOCK_BYTES", chance.randint(500, buffer_bytes))
    monkeypatch.setattr(MODULE.select_parts, "PART_BYTES", chance.randint(1, buffer_bytes))
    table = table_of(chance, buffer_bytes)
    firsts = table.firsts
    with_key = sum(first == KEY for first in firsts)
    sizes = [len(first) for first in firsts]
    with_where = f"FROM S3Object s WHERE s._1 = '{KEY}'"
    expected = {
        "SELECT COUNT(*) FROM S3Object": b"%d\n" % len(firsts),
        f"SELECT COUNT(*) {with_where}": b"%d\n" % with_key,
        f"SELECT s._1 {with_where}": f"{KEY}\n".encode() * with_key,
        "SELECT '1' FROM S3Object": b"1\n" * len(firsts),
        "SELECT CHAR_LENGTH(s._1) FROM S3Object s": b"".join(b"%d\n" % size for size in sizes),
        "SELECT SUM(CHAR_LENGTH(s._1)) FROM S3Object s": b"%d\n" % sum(sizes),
    }
    for query in chance.sample(sorted(expected), len(expected)):
        assert answer(table, query, chance) == expected[query], query
