"""``std:convert-parquet`` gives the values of a table of Parquet in each other format."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import duckdb
import nanoarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.parquet_objects import WIDE_DECIMAL, in_utc
from tests.library.support import LibraryStorlet, shared

STORLET, BACK = LibraryStorlet("convert-parquet"), LibraryStorlet("convert")
ERROR: Any = shared("sql_check").SqlError
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=8,
)


def parquet(tmp_path: Path, query: str) -> bytes:
    """A Parquet file with the rows of ``query``."""
    path = tmp_path / "made.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


def failure(data: bytes, **parameters: str) -> str:
    with pytest.raises(ERROR) as caught:
        STORLET.run(data, parameters)
    text = str(caught.value)
    assert "\n" not in text
    return text


@given(rows=ROWS, output=st.sampled_from(["csv", "jsonl", "arrow", "records"]))
def test_rows_come_back(rows: list[tuple[int, str, float]], output: str) -> None:
    """Through Parquet, which ``std:convert`` makes of JSON lines."""
    kinds = {"columns": '{"id": "int32", "name": "text", "value": "number"}'}
    lines = "".join(
        json.dumps({"id": one, "name": two, "value": three}) + "\n" for one, two, three in rows
    )
    if not rows:
        return
    table = BACK.run(lines.encode(), {"format": "jsonl", "output": "parquet", **kinds}).output
    layout = "i4 id, s16 name, f8 value"
    own = {"struct": layout} if output == "records" else {}
    ran = STORLET.run(table, {"output": output, **own})
    if output == "records":
        expected = b"".join(
            struct.pack("<i16sd", one, two.encode(), three) for one, two, three in rows
        )
        assert ran.output == expected
        return
    if output == "arrow":
        found = nanoarrow.ArrayStream.from_readable(ran.output).read_all().to_pylist()
    elif output == "jsonl":
        found = [json.loads(line) for line in ran.output.splitlines()]
    else:
        again = BACK.run(ran.output, {"output": "jsonl", "parallel": "false", **kinds}).output
        found = [json.loads(line) for line in again.splitlines()]
    # An empty value of CSV is no value.
    names = [(two or None) if output == "csv" else two for _, two, _ in rows]
    assert found == [
        {"id": one, "name": name, "value": three}
        for (one, _, three), name in zip(rows, names, strict=True)
    ]


def test_types_that_another_format_does_not_have(tmp_path: Path) -> None:
    query = (
        "SELECT 12345678901234567.25::DECIMAL(20,2) AS price, '\\xFF'::BLOB AS raw, [1, NULL] AS"
        " parts, DATE '2026-01-02' AS day"
    )
    data = parquet(tmp_path, query)
    lines = STORLET.run(data, {"output": "jsonl"})
    assert lines.metadata == {"Content-Type": "application/x-ndjson"}
    assert json.loads(lines.output) == {
        "price": "12345678901234567.25", "raw": "ff", "parts": [1, None], "day": "2026-01-02",
    }  # fmt: skip
    rows = STORLET.run(data, {"output": "csv"}).output
    assert rows == b'price,raw,parts,day\n12345678901234567.25,ff,"[1,null]",2026-01-02\n'
    layout = "s20 price, b1 raw, s8 parts, s10 day"
    packed = STORLET.run(data, {"output": "records", "struct": layout}).output
    assert packed == struct.pack(
        "<20ss8s10s", b"12345678901234567.25", b"\xff", b"[1,null]", b"2026-01-02"
    )


def test_values_that_the_output_does_not_keep(tmp_path: Path) -> None:
    data = parquet(tmp_path, "SELECT 'nan'::DOUBLE AS value, NULL::INT AS id")
    assert "column 'value': JSON has no number nan" in failure(data, output="jsonl")
    layout = "f8 value, i4 id"
    assert "column 'id': 'None': no value" in failure(data, output="records", struct=layout)
    assert "no field for the columns 'id'" in failure(data, output="records", struct="f8 value")


@pytest.mark.parametrize("parameters", [{"output": "records"}, {"output": "csv", "struct": "i4 a"}])
def test_records_and_their_structure_belong_together(parameters: dict[str, str]) -> None:
    assert "struct: describes output=records" in failure(b"", **parameters)


@pytest.mark.parametrize("cut", [0, 3, -1, -9])
def test_an_object_that_is_cut(tmp_path: Path, cut: int) -> None:
    data = parquet(tmp_path, "SELECT range AS id FROM range(1000)")
    assert "no valid Parquet" in failure(data[:cut], output="csv")


def test_decimals_that_the_engine_reads_as_other_numbers() -> None:
    assert "decimals of over 38 digits are refused" in failure(WIDE_DECIMAL, output="csv")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'2026-01-02 03:04:05.123456'::TIMESTAMP_NS", "2026-01-02 03:04:05.123456+00"),
        ("['2026-01-02 03:04:05'::TIMESTAMP_NS]", ["2026-01-02 03:04:05+00"]),
        ("{'a': '2026-01-02 03:04:05'::TIMESTAMP_NS}", {"a": "2026-01-02 03:04:05+00"}),
        ("'03:04:05.123456789'::TIME_NS", "03:04:05.123456789"),
        ("NULL::TIMESTAMP_NS", None),
    ],
)
def test_nanoseconds_in_utc(tmp_path: Path, value: str, expected: Any) -> None:
    data = in_utc(parquet(tmp_path, f"SELECT 7 AS id, {value} AS t"))
    assert json.loads(STORLET.run(data, {"output": "jsonl"}).output) == {"id": 7, "t": expected}


@pytest.mark.parametrize("output", ["csv", "jsonl", "arrow"])
@pytest.mark.parametrize("value", ["{}", "[NULL, {}]", "{{'a': {}}}", "MAP {{1: {}}}"])
def test_nanoseconds_in_utc_that_would_be_lost(tmp_path: Path, value: str, output: str) -> None:
    time = "'2026-01-02 03:04:05.123456789'::TIMESTAMP_NS"
    data = in_utc(parquet(tmp_path, f"SELECT {value.format(time)} AS t"))
    assert "column 't': has nanoseconds" in failure(data, output=output)


def test_nanoseconds_of_local_timestamps(tmp_path: Path) -> None:
    time = "2026-01-02 03:04:05.123456789"
    data = parquet(tmp_path, f"SELECT '{time}'::TIMESTAMP_NS AS t")
    assert json.loads(STORLET.run(data, {"output": "jsonl"}).output) == {"t": time}


def test_a_variant_has_no_exact_text(tmp_path: Path) -> None:
    data = parquet(tmp_path, "SELECT '1'::VARIANT AS v")
    assert "column 'v': csv has no exact form of VARIANT" in failure(data, output="csv")
    assert "column 'v': jsonl has no exact form of VARIANT" in failure(data, output="jsonl")
    text = failure(data, output="records", struct="s4 v")
    assert "v: no field s for the type VARIANT" in text


def test_a_column_that_would_have_the_name_of_another_one(tmp_path: Path) -> None:
    # The engine writes no such object.
    data = parquet(tmp_path, "SELECT 1 AS key, 2 AS OTR, 3 AS key_1").replace(b"OTR", b"KEY")
    assert "column 'KEY' would be 'KEY_1', which is another column" in failure(data, output="csv")
