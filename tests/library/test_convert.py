"""``std:convert`` gives what a slow reference gives, and no value ever becomes another one."""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("convert")
ERRORS = (
    shared("sql_check").SqlError,
    shared("structure").StructureError,
    shared("packed").PackedError,
)
RECORD = "i4 id, f8 size, s6 name"
ROWS = [(1, 0.5, "a"), (-2, 1e300, "שלום"[:3]), (3, -0.0, "")]
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)


def output(data: bytes, **parameters: str) -> bytes:
    return STORLET.run(data, parameters).output


def failure(data: bytes, **parameters: str) -> str:
    with pytest.raises(ERRORS) as caught:
        output(data, **parameters)
    return str(caught.value)


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def csv_of(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()


def of_parquet(data: bytes, folder: Path, what: str = "*") -> list[tuple[Any, ...]]:
    (folder / "made.parquet").write_bytes(data)
    with duckdb.connect() as connection:
        query = f"SELECT {what} FROM read_parquet('{folder}/made.parquet')"  # noqa: S608
        return connection.execute(query).fetchall()


# --- records --------------------------------------------------------------------------------------

FIELDS = {
    "i1": ("b", st.integers(-(2**7), 2**7 - 1)), "u1": ("B", st.integers(0, 2**8 - 1)),
    "i2": ("h", st.integers(-(2**15), 2**15 - 1)), "u2": ("H", st.integers(0, 2**16 - 1)),
    "i4": ("i", st.integers(-(2**31), 2**31 - 1)), "u4": ("I", st.integers(0, 2**32 - 1)),
    "i8": ("q", st.integers(-(2**63), 2**63 - 1)), "u8": ("Q", st.integers(0, 2**64 - 1)),
    "f4": ("f", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "f8": ("d", st.floats(allow_nan=False, allow_infinity=False)),
    "s12": ("12s", st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
                          max_size=3).map(str.encode)),
    "b3": ("3s", st.binary(min_size=3, max_size=3)),
}  # fmt: skip


@st.composite
def record_files(draw: st.DrawFn) -> tuple[str, list[str], list[tuple[Any, ...]]]:
    """A struct, the codes of its byte order and its fields, and the values of some records."""
    kinds = draw(st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=5))
    order = draw(st.sampled_from("<>"))
    described = order + ", ".join(f"{kind} c{number}" for number, kind in enumerate(kinds))
    codes = [order, *(FIELDS[kind][0] for kind in kinds)]
    rows = draw(st.lists(st.tuples(*(FIELDS[kind][1] for kind in kinds)), max_size=6))
    return described, codes, rows


def plain(value: Any, kind: str) -> Any:
    """A value of a record, as JSON shows it."""
    if kind.endswith("s"):
        is_text = kind == "12s"
        return value.rstrip(b"\0").decode() if is_text else value.hex()
    return value


@settings(max_examples=settings().max_examples // 3)
@given(file=record_files())
def test_records_come_back_through_each_format(file: tuple[str, list[str], list[Any]]) -> None:
    described, (order, *codes), rows = file
    data = b"".join(struct.pack(order + "".join(codes), *row) for row in rows)
    given = {"format": "records", "struct": described}
    as_json = output(data, output="jsonl", **given)
    assert [list(row.values()) for row in lines(as_json)] == [
        [plain(value, code) for value, code in zip(row, codes, strict=True)] for row in rows
    ]
    columns = {f"c{number}": column_type(each) for number, each in enumerate(codes)}
    back = {"output": "records", "struct": described, "columns": json.dumps(columns)}
    if rows:
        assert output(as_json, format="jsonl", **back) == data
    if not any(value == b"" for row in rows for value in row):  # no value, in CSV
        assert output(output(data, output="csv", **given), **back) == data


def column_type(code: str) -> str:
    names = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "B": "uint8", "H": "uint16",
             "I": "uint32", "Q": "uint64", "f": "number", "d": "number"}  # fmt: skip
    return names.get(code, "text")


def test_records_become_parquet(tmp_path: Path) -> None:
    data = b"".join(struct.pack("<id6s", i, size, name.encode()) for i, size, name in ROWS)
    made = output(data, format="records", struct=RECORD, output="parquet")
    assert of_parquet(made, tmp_path) == ROWS
    types = of_parquet(made, tmp_path, "typeof(id), typeof(size), typeof(name)")[0]
    assert types == ("INTEGER", "DOUBLE", "VARCHAR")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\1\0\0\0abc", "the object has 7 bytes, which is no multiple of 5"),
        (b"\1\0\0\0\xff", "record 1: 'x': is no UTF-8"),
        (b"\1\0\0\0a\1\0\0\0\xc3", "record 2: 'x': is no UTF-8"),
    ],
)
def test_records_that_are_cut_or_no_text(data: bytes, text: str) -> None:
    for kind in ("csv", "jsonl", "parquet"):
        assert text in failure(data, format="records", struct="i4 id, s1 x", output=kind)


def test_fields_that_differ_in_case_are_one_name_in_sql() -> None:
    text = failure(bytes(8), format="records", output="csv", struct="i4 id, i4 Id")
    assert text == "struct: the names id and Id are one name in SQL"


def test_a_nul_within_a_text_is_an_error() -> None:
    given = {"format": "records", "struct": "s3 x", "output": "csv"}
    assert "without NUL" in failure(b"a\0b", **given)
    assert output(b"ab\0", **given) == b"x\nab\n"
    assert output(b"a\0b", **{**given, "struct": "b3 x"}) == b"x\n610062\n"


@pytest.mark.parametrize(
    ("value", "field", "text"),
    [
        ("300", "i1", "300"),
        ("-1", "u4", "-1"),
        ("9007199254740993", "f8", "would be rounded"),
        ("0.123456789", "f4", "would be rounded"),
        ("1e39", "f4", "would be rounded"),
        ("abcd", "s3", "has 4 bytes, and the field 3"),
        ("abcd", "b3", "want 6 hexadecimal digits"),
        ("ab cd", "b2", "want 4 hexadecimal digits"),
        ("zz", "b1", "non-hexadecimal"),
        ("1.5", "i4", "no field i for the type DOUBLE"),
        ("x", "f8", "no field f for the type VARCHAR"),
        ("", "s3", "no value"),
    ],
)
def test_a_value_that_its_field_cannot_keep(value: str, field: str, text: str) -> None:
    data = f'x,y\n"{value}",1\n'.encode()
    found = failure(data, output="records", struct=f"{field} x, i4 y")
    assert text in found


def test_floats_that_a_field_keeps() -> None:
    data = b"x\n0.1\n-2.5\n1e10\n"
    made = output(data, output="records", struct="f4 x")
    assert struct.unpack("<3f", made) == struct.unpack("<3f", struct.pack("<3f", 0.1, -2.5, 1e10))


def test_a_double_of_the_engine_is_packed_without_a_comparison() -> None:
    real = shared("record_output")._real
    for value in (0.1, 5e-324, -1.7976931348623157e308, -0.0):
        assert struct.pack("d", real(value, "d")) == struct.pack("d", value)
    for rounded, code in (("9007199254740993", "d"), (0.123456789, "f")):
        with pytest.raises(ValueError, match="would be rounded"):
            real(rounded, code)


def test_fields_and_columns_must_be_the_same() -> None:
    text = failure(b"a,b,c\n1,2,3\n", output="records", struct="i4 a, i4 d")
    assert "struct: there is no column d" in text
    assert "struct: there is no field for the columns 'b', 'c'" in text


# --- types ----------------------------------------------------------------------------------------

TYPED = [
    ("int8", ["-128", "127"], ["128", "1.0", "x"]),
    ("uint8", ["0", "255"], ["-1", "256"]),
    ("int16", ["-32768"], ["32768"]),
    ("int32", ["2147483647"], ["2147483648", "1e3"]),
    ("integer", ["9223372036854775807"], ["9223372036854775808"]),
    ("uint64", ["18446744073709551615"], ["-1", "18446744073709551616"]),
    ("number", ["0.5", "1e300"], ["0.12345678901234567890", "1e400", "one"]),
    (
        "decimal(6,2)",
        ["1234.56", "-1.5", "7", "1.500", ".5", "-.250"],
        ["1.555", ".555", ".", "12345.6", "1e2"],
    ),
    ("decimal(38,0)", ["9" * 38], ["9" * 39]),
    ("boolean", ["true", "false"], ["2", "maybe"]),
    ("date", ["2026-02-28"], ["2026-02-30", "2026-02-28 10:00:00"]),
    ("timestamp", ["2026-02-28 10:00:00"], ["2026-02-28 10:00:00+02:00", "soon"]),
    (
        "timestamptz",
        ["2026-02-28 10:00:00+02:00", "2026-02-28T10:00:00Z", "2026-02-28 10:00:00-2359"],
        ["2026-02-28 10:00:00", "2026-02-28 10:00:00+24", "2026-02-28 10:00:00+02:60"],
    ),
    ("time", ["10:00:00"], ["25:00:00"]),
]


@pytest.mark.parametrize(("kind", "good", "bad"), TYPED, ids=[row[0] for row in TYPED])
def test_given_types(kind: str, good: list[str], bad: list[str], tmp_path: Path) -> None:
    given = {"columns": json.dumps({"x": kind}), "output": "parquet"}
    rows = [[value, "1"] for value in good]
    made = output(csv_of([["x", "n"], *rows]), **given)
    assert of_parquet(made, tmp_path, "count(x)") == [(len(good),)]
    as_text = of_parquet(made, tmp_path, "typeof(x)")
    assert {row[0] for row in as_text} == {sql_type(kind)}
    for value in bad:
        text = failure(csv_of([["x", "n"], [good[0], "1"], [value, "2"]]), **given)
        assert "the object: column 'x'" in text
        assert "its type in the parameter columns" in text
        assert value[:30] in text


def sql_type(kind: str) -> str:
    found: str = STORLET.module.types_of(json.dumps({"x": kind}))["x"]
    return found


def test_types_of_json_lines(tmp_path: Path) -> None:
    data = b'{"a": 1, "b": "1.50", "c": 0.25}\n{"a": 2, "b": 2.5}\n'
    given = {"format": "jsonl", "output": "parquet"}
    columns = {"a": "int8", "b": "decimal(9,2)", "c": "text"}
    made = output(data, columns=json.dumps(columns), **given)
    assert of_parquet(made, tmp_path) == [
        (1, Decimal("1.50"), "0.25"), (2, Decimal("2.50"), None)
    ]  # fmt: skip
    for value in (b'"1"', b"1.5", b"300", b"true"):
        bad = b'{"a": ' + value + b"}\n"
        assert "is no TINYINT" in failure(bad, columns='{"a": "int8"}', **given)
    long = b'{"b": 12345678901234.567}\n'
    assert "is no DECIMAL" in failure(long, columns='{"b": "decimal(20,3)"}', **given)
    quoted = b'{"b": "12345678901234567.891"}\n'
    made = output(quoted, columns='{"b": "decimal(20,3)"}', **given)
    assert of_parquet(made, tmp_path) == [(Decimal("12345678901234567.891"),)]


def test_a_quote_without_an_end_is_an_error() -> None:
    assert "a quote has no end" in failure(b'a,b\n1,2\n"x,3\n4,5\n', output="jsonl")


@pytest.mark.usefixtures("small_head")
def test_a_late_value_without_the_inferred_type_is_an_error() -> None:
    data = b"x\n" + b"1\n" * 3000 + b"2.7\n"
    assert "column 'x': 2.7 is no BIGINT" in failure(data, output="parquet")
    assert "is no BIGINT" in failure(data, output="records", struct="i8 x")


#: Lines that fill the first MiB, and one after it.
LATE = [
    ('{"a": 1}', '{"a": 1, "b": 2}', "the key 'b' is not in the first MiB"),
    ('{"a": 1}', '{"A": 1}', "the key 'A' is not"),
    ('{"a": {"x": 1}}', '{"a": {"x": 1, "y": 2}}', "the key 'y' of 'a' is not"),
    ('{"a": [{"x": {"y": 1}}]}', '{"a": [{"x": {"z": 1}}]}', "the key 'z' of 'a' is not"),
    ('{"a": 1}', '{"a": NaN}', "is no JSON: NaN is no number"),
    ('{"a": 1}', "[1]", "is no JSON object"),
    ('{"a": 1}', '{"a": 1', "is no JSON"),
    ('{"a": 0.5}', '{"a": 0.10000000000000000001}', "column 'a': 0.10000000000000000001 is no"),
]


@pytest.mark.parametrize(("line", "late", "text"), LATE)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_value_that_the_reader_would_lose_late_is_an_error(
    monkeypatch: pytest.MonkeyPatch, line: str, late: str, text: str, end: str
) -> None:
    monkeypatch.setattr(STORLET.module.sql_input, "HEAD_BYTES", 4096)
    data = f"{line}\n" * 1000
    for kind in ("csv", "jsonl", "parquet"):
        found = failure(f"{data}{late}{end}".encode(), format="jsonl", output=kind)
        assert found.startswith("line 1001: ")
        assert text in found
    assert len(lines(output(data.encode(), format="jsonl", output="jsonl"))) == 1000


def test_late_keys_of_values_without_columns_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORLET.module.sql_input, "HEAD_BYTES", 4096)
    data = b'{"a": {"x": 1}}\n' * 1000 + b'{"a": {"x": 1, "y": 2}}\n'
    for kinds in ({"types": "text"}, {"columns": '{"a": "text"}'}):
        made = lines(output(data, format="jsonl", output="jsonl", **kinds))
        assert json.loads(made[-1]["a"]) == {"x": 1, "y": 2}


def test_a_line_without_an_end_is_no_growing_buffer() -> None:
    types = {"a": duckdb.sqltype("BIGINT")}
    check = STORLET.module.Checked(io.BytesIO(b"x" * (3 << 20)), b'{"a": 1}\n{"', types)
    with pytest.raises(ERRORS, match="line 2: has more than 1048576 bytes"):
        list(iter(lambda: check.read(1 << 18), b""))


NUMBERS = [
    ("2.00000000000000001", False, False),
    ("0.10000000000000000001", False, False),
    ("0.12345678901234567890", False, False),
    ("9.99999999999999999", False, False),
    ("1e-400", False, False),
    ("1.5e-300", True, True),
    ("0.10000000000000001", True, False),
    ("-0.1000000000000000055511151231257827", True, False),
    ("0.1000000000000000000", True, True),
    ("0.0000000000000000000e-99999999999999999999", True, True),
    ("0.3333333333333333", True, True),
    ("1" * 900 + ".5", False, False),
]


@pytest.mark.parametrize(("text", "is_double", "is_decimal"), NUMBERS)
def test_numbers_of_json_that_a_double_keeps(text: str, is_double: bool, is_decimal: bool) -> None:
    data = f'{{"a": 0.5}}\n{{"a": {text}}}\n'.encode()
    for wanted, kind in ((is_double, ""), (is_double, "number"), (is_double, "text"),
                         (is_decimal, "decimal(38,20)")):  # fmt: skip
        given = {"format": "jsonl", "output": "csv"}
        given |= {"columns": json.dumps({"a": kind})} if kind else {}
        if not wanted:
            assert failure(data, **given).startswith("line 2: column 'a': ")
        elif not kind.startswith("decimal"):
            assert float(output(data, **given).split()[2]) == float(text)


@given(value=st.floats(allow_nan=False, allow_infinity=False), places=st.integers(0, 25))
def test_each_number_of_digits_of_a_double_is_kept(value: float, places: int) -> None:
    check = STORLET.module.Checked.__init__.__globals__
    for text in (repr(value), f"{value:.{17 + places}e}"):
        assert check["is_kept"](check["Written"](text), is_decimal=False)
    assert check["is_kept"](check["Written"](repr(value)), is_decimal=True)


def test_whole_numbers_above_64_bits_are_exact_in_parquet(tmp_path: Path) -> None:
    data = b'{"id": 18446744073709551615, "n": {"x": [9007199254740993]}}\n'
    made = output(data, format="jsonl", output="parquet")
    assert of_parquet(made, tmp_path, "id, typeof(id), n.x[1]") == [
        (Decimal(18446744073709551615), "DECIMAL(38,0)", 9007199254740993)
    ]
    most = str(2**127 - 1)
    made = output(f"h\n{most}\n".encode(), output="parquet")
    assert of_parquet(made, tmp_path, "h, typeof(h)") == [(most, "VARCHAR")]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("{", "columns: is not JSON"),
        ("[]", "want an object"),
        ('{"x": "int"}', "'x': 'int': want one of text, integer"),
        ('{"x": 1}', "'x': '1': want one of"),
        ('{"x": "decimal(39,1)"}', "with up to 38 digits"),
        ('{"x": "decimal(3,4)"}', "with up to 38 digits"),
        ('{"x": "date", "x": "time"}', "a column is named twice"),
        ('{"y": "date"}', "columns: there is no 'y' among 'x'"),
        ("[" * 100_000, "columns: is not JSON"),
    ],
)
def test_wrong_columns(columns: str, text: str) -> None:
    assert text in failure(b"x\n1\n", columns=columns, output="csv")


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"format": "records", "output": "records", "struct": "i4 a"}, "want std:records"),
        ({"format": "records", "output": "csv"}, "struct: is missing"),
        ({"output": "records"}, "struct: is missing"),
        ({"output": "csv", "struct": "i4 a"}, "struct: is for records only"),
        ({"format": "records", "output": "csv", "struct": "i4 a", "types": "text"}, "are for CSV"),
        ({"format": "records", "output": "csv", "struct": "i5 a"}, "want a type and a name"),
        ({"output": "csv", "delimiter": ",,"}, "delimiter: want one character"),
    ],
)
def test_parameters_that_exclude_each_other(parameters: dict[str, str], text: str) -> None:
    assert text in failure(b"a\n1\n", **parameters)


@pytest.mark.usefixtures("small_head")
def test_messages_name_the_storlet_and_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    with STORLET.module.ConvertEngine(64) as engine:
        full = engine.errors.explained(duckdb.OutOfMemoryException("Out of Memory Error: x"), 0)
        assert str(full) == (
            "the object: needs more memory than memory-mib=64: raise memory-mib"
            " (Out of Memory Error: x)"
        )
    late = failure(b"a,b\n" + b"1,2\n" * 3000 + b"3\n", output="csv")
    assert late.startswith("the object: ")
    assert "query" not in late
    monkeypatch.setitem(STORLET.module.ConvertEngine.__init__.__globals__, "duckdb", None)
    assert failure(b"a\n1\n", output="csv").startswith("std:convert needs the Python package")


# --- CSV, JSON lines, Parquet ---------------------------------------------------------------------


@given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6))
def test_texts_stay_as_they_are(rows: list[tuple[str, str]]) -> None:
    data = csv_of([["a", "b"], *map(list, rows)])
    if "\r" in data.decode():
        return  # a line end of the reader
    made = lines(output(data, output="jsonl", types="text"))
    assert made == [{"a": a or None, "b": b or None} for a, b in rows]
    again = output("".join(json.dumps(row) + "\n" for row in made).encode(),
                   format="jsonl", output="csv", types="text")  # fmt: skip
    found = list(csv.reader(io.StringIO(again.decode(), newline="")))
    assert found == [["a", "b"], *map(list, rows)]


def test_parquet_of_many_rows_has_groups(tmp_path: Path) -> None:
    data = b"n,t\n" + b"".join(b"%d,text %d\n" % (n, n) for n in range(100_000))
    made = output(gzip.compress(data), output="parquet")
    assert of_parquet(made, tmp_path, "count(*), sum(n), max(t)") == [
        (100_000, sum(range(100_000)), "text 99999")
    ]
    with duckdb.connect() as connection:
        groups = connection.execute(
            "SELECT count(DISTINCT row_group_id) FROM parquet_metadata(?)",
            [f"{tmp_path}/made.parquet"],
        ).fetchall()
    assert groups == [(4,)]
    assert b"ZSTD" in made or len(made) < len(data) / 2


def test_nested_values_are_json_in_csv() -> None:
    data = b'{"a": {"b": [1, null]}, "c": [0.5, 2]}\n{"a": null, "c": []}\n'
    made = output(data, format="jsonl", output="csv").decode()
    rows = list(csv.reader(io.StringIO(made)))
    assert [json.loads(each) for each in rows[1]] == [{"b": [1, None]}, [0.5, 2]]
    assert (rows[2][0], json.loads(rows[2][1])) == ("", [])


def test_numbers_that_json_does_not_keep_are_texts_or_errors() -> None:
    columns = '{"d": "decimal(30,10)", "s": "decimal(15,2)"}'
    data = b"d,s,h\n1234567890123456789.0123456789,1.50,170141183460469231731687303715884105727\n"
    (row,) = lines(output(data, columns=columns, output="jsonl"))
    assert row == {
        "d": "1234567890123456789.0123456789", "s": 1.5,
        "h": "170141183460469231731687303715884105727",
    }  # fmt: skip
    nan = struct.pack("<d", float("nan"))
    given = {"format": "records", "struct": "f8 x"}
    assert "JSON has no number nan" in failure(nan, output="jsonl", **given)
    assert output(nan, output="csv", **given) == b"x\nnan\n"


@pytest.mark.usefixtures("small_head")
def test_an_object_that_is_cut_or_no_table() -> None:
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 60_000)
    for size in (len(packed) // 3, len(packed) - 1):
        for kind in ("parquet", "csv"):
            assert "the object is cut" in failure(packed[:size], output=kind, compression="gzip")
    assert "line" in failure(b"a,b\n1,2\n3\n", output="parquet").lower()
    text = failure(b'{"a": 1}\n{"a": \n', format="jsonl", output="csv")
    assert "Malformed JSON the object, at byte" in text
    text = failure(b'{"a": 1}\n[2]\n', format="jsonl", output="csv")
    assert "expected records" in text
    assert "the object is empty" in failure(b"", output="csv")


def test_a_given_date_whose_order_is_not_clear_is_an_error() -> None:
    given = {"format": "csv", "output": "jsonl", "columns": '{"day": "date"}'}
    unclear = "column 'day': the order of day, month and year is not clear"
    with pytest.raises(ERRORS, match=unclear):
        STORLET.run(b"day,n\n03/04/2026,1\n", given)
    for day, iso in (("13/04/2026", "2026-04-13"), ("04/13/2026", "2026-04-13")):
        ran = STORLET.run(f"day,n\n{day},1\n".encode(), given)
        assert json.loads(ran.output) == {"day": iso, "n": 1}
    # Another column decides nothing, and one without a value has no order.
    both = {**given, "columns": '{"day": "date", "n": "date"}'}
    with pytest.raises(ERRORS, match=unclear):
        STORLET.run(b"day,n\n03/04/2026,13/04/2026\n", both)
    ran = STORLET.run(b"day,n\n,13/04/2026\n,14/04/2026\n", both)
    assert json.loads(ran.output.splitlines()[0]) == {"day": None, "n": "2026-04-13"}
