"""S3 Select of CSV in parts: each record once and in order, wherever parts and blocks end."""

from __future__ import annotations

import csv
import gzip
import io
import json
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.library import test_s3_select as whole
from tests.library.support import shared

pytestmark = pytest.mark.usefixtures("leftovers")

PARTS: Any = whole.MODULE.select_parts
TABLES: Any = whole.MODULE.select_tables
#: Each example sets what it needs.
UNSAFE = [HealthCheck.function_scoped_fixture]
FIELDS = st.text(st.sampled_from('ab c,"\n\r€#'), max_size=6)
ALL = "SELECT s._1, s._2 FROM S3Object s"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Parts of one block of some bytes."""
    monkeypatch.setattr(PARTS, "PART_BYTES", 1)
    sizes(monkeypatch, 7, 20)
    return monkeypatch


def sizes(patch: pytest.MonkeyPatch, block: int, head: int) -> None:
    """The bytes of a block, and of the head."""
    patch.setattr(PARTS, "BLOCK_BYTES", block)
    patch.setattr("select_streams.BLOCK_BYTES", block)
    patch.setattr("select_tables.HEAD_BYTES", head)


Frames = list[tuple[str, bytes]]


def both(
    patch: pytest.MonkeyPatch, data: bytes, source: dict[str, Any], block: int, head: int
) -> tuple[Frames, Frames]:
    """Results of a query of one part, and of one of many with the same columns."""
    table_of, found = TABLES.table_of, list[Any]()

    def same(*given: Any, **named: Any) -> Any:
        found.append(found[0] if found else table_of(*given, **named))
        return found[-1]

    with patch.context() as inner:
        inner.setattr(TABLES, "table_of", same)
        sizes(inner, 1 << 18, 1 << 20)
        alone = whole.run(data, "SELECT * FROM S3Object", source)
        sizes(inner, block, head)
        return alone, whole.run(data, "SELECT * FROM S3Object", source)


def counted(patch: pytest.MonkeyPatch) -> list[bytes]:
    """The parts that runs take from now on."""
    found: list[bytes] = []
    take = PARTS.Records.next

    def noted(self: Any) -> bytes:
        found.append(take(self))
        return found[-1]

    patch.setattr(PARTS.Records, "next", noted)
    return found


def text_of(table: list[tuple[str, str]], line_end: str, quoting: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator=line_end, quoting=quoting).writerows(table)
    return text.getvalue().encode()


@settings(suppress_health_check=UNSAFE)
@given(
    table=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=12),
    line_end=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(8, 40),
    header=st.sampled_from(["NONE", "IGNORE"]),
    more=st.lists(st.sampled_from(["", "\n", "\n\n", "# comment\n"]), max_size=30),
)
def test_quoted_records_are_those_of_the_csv_module(
    small: pytest.MonkeyPatch, table: list[tuple[str, str]], line_end: str, block: int,
    header: str, more: list[str],
) -> None:  # fmt: skip
    lines = [text_of([row], line_end, csv.QUOTE_ALL).decode() for row in table]
    extra = [each.replace("\n", line_end) for each in more]
    data = "".join(line + "".join(extra[n : n + 1]) for n, line in enumerate(lines)).encode()
    source = {"header": header, "quoted_records": True}
    rows = table if header == "NONE" else table[1:]
    # The header is in the head.
    sizes(small, block, 120)
    assert whole.objects(data, ALL, source) == [{"_1": one, "_2": two} for one, two in rows]


@settings(suppress_health_check=UNSAFE)
@given(
    data=st.text(st.sampled_from('ab,"\n\r#'), max_size=40).map(str.encode),
    block=st.integers(3, 20),
    source=st.fixed_dictionaries(
        {
            "header": st.sampled_from(["NONE", "NONE", "IGNORE", "USE"]),
            "record": st.sampled_from(["\n", "\r\n", "\r"]),
            "quoted_records": st.booleans(),
            "comment": st.sampled_from(["", "#"]),
        }
    ),
)
def test_any_bytes_give_what_one_part_gives(
    small: pytest.MonkeyPatch, data: bytes, block: int, source: dict[str, Any]
) -> None:
    alone, found = both(small, data, source, block, 1 if source["header"] == "NONE" else 1000)
    assert found[-1][0] == alone[-1][0], (found, alone)
    if alone[-1][0] == "S":
        assert joined(found) == joined(alone)


def joined(found: list[tuple[str, bytes]]) -> bytes:
    return b"".join(data for kind, data in found if kind == "R")


def test_large_parts_have_each_record_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(monkeypatch)
    data = b"number,text\n" + b"".join(b"%d,%s\n" % (n, b"x" * (n % 91)) for n in range(320_000))
    query = "SELECT s.number FROM S3Object s WHERE s.text <> ''"
    expected = "".join(f"{n}\n" for n in range(320_000) if n % 91)
    assert whole.result(data, query, whole.USE) == expected
    assert len(found) > 4
    assert b"".join(found) == data.partition(b"\n")[2]
    assert all(part.endswith(b"\n") for part in found if part)


def test_a_failure_leaves_as_the_one_of_its_part(small: pytest.MonkeyPatch) -> None:
    data = b"".join(b"%d\n" % n for n in range(100)) + b"x\n" + b"y\n" * 100
    *found, (kind, last) = whole.run(data, "SELECT CAST(s._1 AS INT) FROM S3Object s")
    assert (kind, json.loads(last)["code"]) == ("E", "CastFailed")
    assert '"x"' in json.loads(last)["text"]
    numbers = [int(line) for line in joined(found).splitlines()]
    # All but the records of the part that failed.
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 90


def test_an_error_of_the_reader_has_no_line_of_a_part(small: pytest.MonkeyPatch) -> None:
    kind, last = whole.run(b"a,b\n" * 100 + b"a,b,c\n", "SELECT * FROM S3Object")[-1]
    fault = json.loads(last)
    assert (kind, fault["code"]) == ("E", "CSVParsingError")
    assert "a,b,c" in fault["text"]
    assert "Line: " not in fault["text"].replace("Original Line: ", "")


def test_an_object_that_is_cut_fails_after_the_records_before(small: pytest.MonkeyPatch) -> None:
    sizes(small, 20_000, 20_000)
    data = b"".join(b"%d\n" % n for n in range(50_000))
    packed = gzip.compress(data)
    found = whole.run(packed[:-100], "SELECT * FROM S3Object", compression="GZIP")
    assert (found[-1][0], json.loads(found[-1][1])["code"]) == ("E", "TruncatedInput")
    assert data.startswith(joined(found))


def test_an_output_that_is_closed_ends_all_threads(small: pytest.MonkeyPatch) -> None:
    class Closed(Exception):
        pass

    def write(_data: bytes) -> None:
        raise Closed

    records = PARTS.Records(io.BytesIO(b"a\n" * 1000), b"", csv_input(), has_header=False)
    engine_module = shared("sql_engine")
    with engine_module.Engine(64) as engine, ExitStack() as sessions:
        parts = PARTS.Parts(engine, records, sessions)
        engine.rows(
            f"CREATE VIEW t AS SELECT * FROM read_csv('{parts.inlet.path}', auto_detect=false,"  # noqa: S608
            " columns={'c': 'VARCHAR'})"
        )
        with pytest.raises(Closed):
            parts.select("SELECT c || chr(10) FROM t", write, lambda: None)


def csv_input() -> Any:
    return shared("select_request").CsvInput()


def test_a_result_waits_for_its_turn_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PARTS, "WAITING_BYTES", 10)
    turns, written = PARTS._Turns(), list[bytes]()
    first = PARTS._Result(turns, turns.taken(), written.append)
    second = PARTS._Result(turns, turns.taken(), written.append)
    second.write(b"ten bytes.")
    assert written == []
    waits = threading.Thread(target=lambda: (second.write(b"more"), second.end()))
    waits.start()
    time.sleep(0.05)
    first.write(b"first")
    assert waits.is_alive()
    assert written == [b"first"]
    first.end()
    waits.join(10)
    assert written == [b"first", b"ten bytes.", b"more"]


def test_a_record_without_an_end_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a\n" + b"x" * (7 << 20)
    assert whole.code(data, "SELECT s._1 FROM S3Object s") == "OverMaxRecordSize"


@pytest.mark.parametrize(
    ("query", "source", "count"),
    [
        ("SELECT COUNT(*) FROM S3Object", {}, 1),
        ("SELECT * FROM S3Object LIMIT 3", {}, 3),
        ("SELECT * FROM S3Object", {"quoted_records": True, "escape": "\\"}, 10),
    ],
)
def test_an_input_that_is_not_selected_by_record_is_read_whole(
    small: pytest.MonkeyPatch, query: str, source: dict[str, Any], count: int
) -> None:
    found = counted(small)
    rows = whole.result(b"1,2\n" * 10, query, {**whole.CSV, **source}).splitlines()
    assert (len(rows), found) == (count, [])
