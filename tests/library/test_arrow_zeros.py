"""``output=arrow`` has zeros where there is no value, so no byte of anything else."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import nanoarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

SQL = LibraryStorlet("sql")
ZEROS: Any = shared("arrow_zeros")
SIZES = {
    "int8": 1, "uint16": 2, "int32": 4, "float64": 8, "date32": 4, "decimal128": 16, "int64": 8,
}  # fmt: skip


def schema_of(name: str) -> Any:
    if name == "decimal128":
        return nanoarrow.decimal128(38, 2)
    return getattr(nanoarrow, name)()


def batch_of(schema: Any, length: int, buffers: list[bytes | None], *children: Any) -> Any:
    """An array whose buffers have memory of their own."""
    return nanoarrow.c_array_from_buffers(
        schema,
        length,
        [each and bytearray(each) for each in buffers],
        null_count=-1,
        children=children,
    )


def buffers_of(array: Any, *sizes: int) -> list[bytes]:
    raw = ZEROS._Array.from_address(array._addr())
    return [ctypes.string_at(raw.buffers[number], size) for number, size in enumerate(sizes)]


def slow(bits: bytes, values: bytes, length: int, size: int) -> bytes:
    """A slow reference: the values with zeros behind nulls."""
    return b"".join(
        values[n * size : (n + 1) * size] if bits[n // 8] >> n % 8 & 1 else bytes(size)
        for n in range(length)
    )


@given(
    name=st.sampled_from(sorted(SIZES)),
    length=st.integers(1, 40),
    seed=st.integers(0, 1000),
    in_struct=st.booleans(),
)
def test_values_stay_and_all_else_is_zero(
    name: str, length: int, seed: int, in_struct: bool
) -> None:
    chance = random.Random(seed)  # noqa: S311  the same each time
    size, bytes_ = SIZES[name], (length + 7) // 8
    bits, values = chance.randbytes(bytes_), chance.randbytes(length * size)
    array = batch_of(schema_of(name), length, [bits, values])
    around = b"\xff" * bytes_
    if in_struct:
        around = chance.randbytes(bytes_)
        array = batch_of(nanoarrow.struct({"x": schema_of(name)}), length, [around], array)
    ZEROS.Zeros.of(array.schema).write(array)
    inner = array.child(0) if in_struct else array
    found, kept = buffers_of(inner, bytes_, length * size)
    last = (1 << length) - 1
    limited = int.from_bytes(bits, "little") & last
    assert int.from_bytes(found, "little") == limited
    both = limited & int.from_bytes(around, "little")
    assert kept == slow(both.to_bytes(bytes_, "little"), values, length, size)


@given(length=st.integers(1, 40), seed=st.integers(0, 1000))
def test_bits_and_lists_of_one_length(length: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  the same each time
    size = (length + 7) // 8
    bits, values = chance.randbytes(size), chance.randbytes(size)
    array = batch_of(nanoarrow.bool_(), length, [bits, values])
    ZEROS.Zeros.of(array.schema).write(array)
    last = (1 << length) - 1
    number = int.from_bytes(bits, "little") & int.from_bytes(values, "little") & last
    assert buffers_of(array, size, size)[1] == number.to_bytes(size, "little")
    items = chance.randbytes(3 * length * 2)
    child = batch_of(nanoarrow.int16(), 3 * length, [None, items])
    array = batch_of(nanoarrow.fixed_size_list(nanoarrow.int16(), 3), length, [bits], child)
    ZEROS.Zeros.of(array.schema).write(array)
    raw = ZEROS._Array.from_address(array._addr()).children[0].contents
    found = ctypes.string_at(raw.buffers[1], len(items))
    assert found == slow(bits, items, length, 6)


SECRET = 0x5EC2E75EC2E7AA
OTHER = "a,b\n" + "".join(f"{SECRET + n},{SECRET}\n" for n in range(20_000))
DATA = "a,b\n" + "".join(f"{n},{'' if n % 3 else 7}\n" for n in range(20_000))


@pytest.mark.parametrize(
    "shown",
    [
        "b",
        "CASE WHEN a % 2 = 0 THEN a END AS c, a",
        "CASE WHEN a % 2 = 0 THEN {'x': a, 'y': b} END AS c",
        "CASE WHEN a % 2 = 0 THEN [a, b] END AS c",
        "[b, b] AS c",
        "b::DECIMAL(38,2) AS c, b > 3 AS d",
        "nullif(a % 5, 1)::UTINYINT AS c, a % 7 = 0 OR NULL AS d",
    ],
)
def test_a_run_after_others_gives_the_same_bytes(shown: str) -> None:
    def ran(data: str, query: str) -> bytes:
        return SQL.run(data.encode(), {"query": query, "output": "arrow"}).output

    query = f"SELECT {shown} FROM input"  # noqa: S608
    first = ran(DATA, query)
    for _ in range(2):
        other = ran(
            OTHER, "SELECT a, b, [a, b] AS c, a::DECIMAL(38,2) AS d, 'x' || a AS e FROM input"
        )
        assert SECRET.to_bytes(8, "little") in other
        again = ran(DATA, query)
        assert again == first
        assert SECRET.to_bytes(8, "little") not in again


@pytest.mark.parametrize(
    "value", ["a", "{'x': a}", "a::DECIMAL(38,0)", "{'x': {'y': a}, 'z': [a]}", "[{'x': a}]"]
)
@pytest.mark.parametrize("form", ["CASE WHEN odd THEN NULL ELSE {} END", "if(odd, NULL, {})"])
def test_values_that_a_query_replaces_by_null_do_not_leave(value: str, form: str) -> None:
    data = "a,odd\n" + "".join(f"{SECRET + n},{n % 2 == 1}\n" for n in range(3000))
    query = f"SELECT {form.format(value)} AS v FROM input"  # noqa: S608
    output = SQL.run(data.encode(), {"query": query, "output": "arrow"}).output
    for number in range(3000):
        assert ((SECRET + number).to_bytes(8, "little") in output) == (number % 2 == 0), number


def test_texts_that_a_query_replaces_by_null_do_not_leave() -> None:
    data = "a,odd\n" + "".join(f"secret {n % 2 == 1} {n},{n % 2 == 1}\n" for n in range(3000))
    for value in ("a", "{'x': a}", "[a]", "{'x': [{'y': a}]}", "map {a: a}"):
        query = f"SELECT CASE WHEN odd THEN NULL ELSE {value} END AS v FROM input"  # noqa: S608
        output = SQL.run(data.encode(), {"query": query, "output": "arrow"}).output
        assert b"secret False 2998" in output
        assert b"secret True" not in output


def test_each_type_that_is_written_is_known() -> None:
    output = shared("arrow_output")
    for kind in (*sorted(output._SHORT - {"UUID"}), "DECIMAL(4,2)", "DECIMAL(38,2)"):
        with SQL.module.Engine(64) as engine, output._stand_in():
            reader = engine.arrow_reader(f"SELECT CAST(NULL AS {kind}) AS v", 8)
            (child,) = ZEROS.Zeros.of(reader.get_schema()).children
            assert child.size or child.has_bits, kind
