"""Logical types with nanoseconds are found in the schema of a footer only, at any place there."""

# ruff: noqa: S608  queries of the tests

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.parquet_objects import in_utc
from tests.library.support import shared
from tests.library.test_sql_parquet import failure, output, parquet

parquet_types: Any = shared("parquet_types")
TIME = "'03:04:05.123456789'::TIME_NS"
STAMP = "'2026-01-02 03:04:05.123456'::TIMESTAMP_NS"
#: A number whose bytes are those of the type TIME in UTC with nanoseconds, or of TIMESTAMP.
LIKE_TIME, LIKE_TIMESTAMP = (
    struct.unpack("<q", kind + b"\x11\x1c\x3c\0\0\0\0")[0] for kind in (b"\x7c", b"\x8c")
)


def footer(data: bytes) -> bytes:
    (length,) = struct.unpack("<I", data[-8:-4])
    return data[-8 - length : -8]


def found(data: bytes) -> list[tuple[bool, bool]]:
    types = parquet_types.types_with_nanoseconds(footer(data))
    return [(each.is_timestamp, each.is_in_utc) for each in types]


def test_types_are_found_at_all_levels(tmp_path: Path) -> None:
    query = f"SELECT 7 AS id, {STAMP} AS a, [{TIME}] AS b, {{'x': {STAMP}, 'y': 'z'}} AS c"
    data = parquet(tmp_path, query)
    assert found(data) == [(True, False), (False, False), (True, False)]
    assert found(in_utc(data)) == [(True, True), (False, True), (True, True)]
    types = parquet_types.types_with_nanoseconds(footer(in_utc(data)))
    assert parquet_types.in_local_time(footer(in_utc(data)), types) == footer(data)


@pytest.mark.parametrize("number", [LIKE_TIME, LIKE_TIMESTAMP])
def test_a_least_number_with_the_bytes_of_a_type_stays(tmp_path: Path, number: int) -> None:
    """The engine leaves out groups of rows by their least and largest numbers."""
    data = parquet(tmp_path, f"SELECT {number} + i AS n FROM range(9) t(i)")
    assert number.to_bytes(8, "little") in footer(data)
    assert found(data) == []
    query = f"SELECT count(*) AS c FROM input WHERE n = {number}"
    assert output(data, query) == b"c\n1\n"
    mixed = in_utc(parquet(tmp_path, f"SELECT {number} + i AS n, {STAMP} AS t FROM range(9) t(i)"))
    query = f"SELECT count(t) AS c FROM input WHERE n <= {number}"
    assert output(mixed, query) == b"c\n1\n"


def test_a_number_with_the_bytes_of_a_type_is_beside_a_local_timestamp(tmp_path: Path) -> None:
    data = parquet(tmp_path, f"SELECT {LIKE_TIMESTAMP} AS n, {STAMP} AS t")
    assert output(data, "SELECT n, typeof(t) AS k FROM input") == (
        f"n,k\n{LIKE_TIMESTAMP},TIMESTAMP_NS\n".encode()
    )


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x19", b"\x19\xfc", b"\x19\xfc" + 11 * b"\xff", b"\x19\x1c" + 5000 * b"\xac",
        b"\x0e", b"\x28\xff\xff\xff\xff\x07", b"\x17\0", b"\x1b\xff\xff\xff\x0f\x88",
    ],
)  # fmt: skip
def test_other_data_are_no_footer(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"structure|kind|bits"):
        parquet_types.types_with_nanoseconds(data)


@given(st.binary(max_size=200))
def test_any_bytes_end_in_types_or_in_the_error(data: bytes) -> None:
    try:
        types = parquet_types.types_with_nanoseconds(data)
    except ValueError:
        return
    assert len(parquet_types.in_local_time(data, types)) == len(data)


def test_a_broken_footer_is_reported_by_the_engine(tmp_path: Path) -> None:
    data = bytearray(parquet(tmp_path, "SELECT 1 AS n"))
    data[-8 - len(footer(bytes(data)))] = 0x1E
    assert "no valid Parquet" in failure(bytes(data), "SELECT n FROM input")
