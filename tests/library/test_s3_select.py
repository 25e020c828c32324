"""``std:s3-select`` gives the records of a slow reference, and fails with S3's codes."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet

pytestmark = pytest.mark.usefixtures("leftovers")

STORLET = LibraryStorlet("s3-select")
HEAD = struct.Struct(">cI")
MODULE: Any = STORLET.module
CSV: dict[str, Any] = {"header": "NONE"}
LINES = {"type": "LINES"}
JSON_OUT = {"record": "\n"}
CSV_OUT = {"quotes": "ASNEEDED"}
PEOPLE = (
    b'name,age,city\nAda,36,London\nGrace,85,"New York, NY"\nMiroslav,,Praha\n'
    b'# nobody,0,nowhere\n"in""ch",7,\n'
)
EVENTS = b"""\
{"id": 1, "user": {"name": "Ada", "Tags": ["x", "y"]}, "ok": true, "size": 1.5}
{"id": 2, "user": {"name": "Bo", "Tags": []}, "ok": false, "size": null}
{"id": "three", "user": "none", "size": 12345678901234567}
{"id": 4, "a/b~c": 5, "Size": 7}
"""


def frames(data: bytes) -> list[tuple[str, bytes]]:
    found = []
    while data:
        kind, size = HEAD.unpack_from(data)
        assert size <= 64 * 1024
        found.append((kind.decode(), data[HEAD.size : HEAD.size + size]))
        data = data[HEAD.size + size :]
    return found


def run(
    data: bytes,
    query: str,
    source: dict[str, Any] = CSV,
    target: dict[str, Any] = CSV_OUT,
    **more: Any,
) -> list[tuple[str, bytes]]:
    request = {"expression": query, "input": source, "output": target, **more}
    return frames(STORLET.run(data, {"request": json.dumps(request)}).output)


def result(data: bytes, query: str, *formats: dict[str, Any], **more: Any) -> str:
    """The records of a query that succeeds."""
    *found, last = run(data, query, *formats, **more)
    assert last[0] == "S", last
    return b"".join(data for kind, data in found if kind == "R").decode()


def objects(data: bytes, query: str, source: dict[str, Any] = CSV, **more: Any) -> list[Any]:
    lines = result(data, query, source, JSON_OUT, **more).splitlines()
    found: list[Any] = json.loads(f"[{','.join(lines)}]")
    assert len(found) == len(lines)
    return found


def code(data: bytes, query: str, *formats: dict[str, Any], **more: Any) -> str:
    """The code of a query that fails."""
    kind, last = run(data, query, *formats, **more)[-1]
    assert kind == "E", (kind, last)
    fault = json.loads(last)
    assert fault["text"], fault
    return str(fault["code"])


def value(expression: str, data: bytes = b"1\n") -> Any:
    """The value of an expression, as JSON."""
    query = f"SELECT {expression} AS v FROM S3Object s"  # noqa: S608 - of constants
    return objects(data, query)[0].get("v")


USE = {"header": "USE"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT FROM S3Object", "ParseEmptySelect"),
        ("SELECT s.no FROM S3Object s", "MissingHeaders"),
    ],
)
def test_a_wrong_query_starts_no_engine(
    query: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "SelectEngine", None)
    assert code(PEOPLE, query, USE) == expected


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "source", "expected"),
    [
        ("SELECT * FROM S3Object s WHERE s._1 = 'Ada'", {"header": "IGNORE"}, "Ada,36,London\n"),
        ("SELECT s.CITY, s.name FROM S3Object s WHERE s.age = '85'", USE, '"New York, NY",Grace\n'),
        ('select "name" from s3object where "age" = \'\'', USE, "Miroslav\n"),
        ("SELECT S3Object._1 FROM S3Object LIMIT 1", CSV, "name\n"),
        ("SELECT s._1 FROM S3Object[*] AS s WHERE s.age = '7'", USE, '"in""ch"\n'),
        ("SELECT COUNT(*) FROM S3Object", USE, "4\n"),
        ("SELECT s._9 FROM S3Object s LIMIT 1", CSV, "\n"),
        ("SELECT * FROM S3Object LIMIT 0", CSV, ""),
        ("SELECT MAX(CAST(s.age AS INT)) m FROM S3Object s WHERE s.age <> ''", USE, "85\n"),
        ("SELECT s.name -- a comment\n FROM /* and one */ S3Object s LIMIT 1;", USE, "Ada\n"),
    ],
)
def test_records_of_csv(query: str, source: dict[str, Any], expected: str) -> None:
    assert result(PEOPLE, query, source) == expected


@pytest.mark.parametrize(
    ("data", "query", "csv_out", "json_out"),
    [
        (b'{"a":1,"b":2,"a":3}', "SELECT * FROM S3Object", "1,2,1\n", '{"a":1,"b":2,"a":3}\n'),
        (b'{"a":1,"b":2,"a":3}', "SELECT s.a FROM S3Object s", "1\n", '{"a":1}\n'),
        (b'{"a":[1,2,],}', "SELECT * FROM S3Object", '"[1,2]"\n', '{"a":[1,2]}\n'),
    ],
)
def test_keys_that_are_there_twice_and_commas_at_ends(
    data: bytes, query: str, csv_out: str, json_out: str
) -> None:
    assert result(data, query, LINES, CSV_OUT) == csv_out
    assert result(data, query, LINES, JSON_OUT) == json_out


OTHER = {"header": "USE", "other_record": "|", "comment": ""}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a,b|1,x|2,y|", [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]),
        (b"a,b|1,x\ny|2,y", [{"a": "1", "b": "x\ny"}, {"a": "2", "b": "y"}]),
        (b'a,b|"1\n",",|"|', "CSVEscapingRecordDelimiter"),
        (b'a,b|"1\n",","|', [{"a": "1\n", "b": ","}]),
        (b"a,b|1,x\r|2,y", "CSVParsingError"),
    ],
)
def test_records_may_end_with_another_character(data: bytes, expected: list[Any] | str) -> None:
    query = "SELECT s.a, s.b FROM S3Object s"
    if isinstance(expected, str):
        assert code(data, query, OTHER) == expected
    else:
        assert objects(data, query, OTHER) == expected
        assert objects(data, "SELECT * FROM S3Object", OTHER) == expected


def test_a_quoted_field_may_have_another_delimiter_of_records() -> None:
    source = OTHER | {"quoted_records": True}
    found = objects(b'a\nb,c|"1|\n",2|', 'SELECT s."a\nb", s.c FROM S3Object s', source)
    assert found == [{"a\nb": "1|\n", "c": "2"}]


def test_ranges_of_other_records() -> None:
    data = b"".join(b"%d,x|" % number for number in range(100))
    source = OTHER | {"header": "NONE"}
    parts = [
        result(
            data[max(start - 1, 0) :], "SELECT s._1 FROM S3Object s", source, start=start, end=end
        )
        for start, end in ((0, 77), (78, 78), (79, None))
    ]
    assert "".join(parts).split() == [str(number) for number in range(100)]


def test_hundreds_of_columns() -> None:
    data = ",".join(str(number) for number in range(300)) + "\n"
    assert result(data.encode(), "SELECT * FROM S3Object") == data


def test_all_fields_are_quoted_on_request() -> None:
    target = {"quotes": "ALWAYS", "delimiter": ";", "record": "\r\n", "quote": "'", "escape": "'"}
    query = "SELECT s._1, s._2 FROM S3Object s WHERE s._2 = 'it''s'"
    assert result(b"a,it's\n", query, CSV, target) == "'a';'it''s'\r\n"


def test_a_record_with_fewer_fields_has_missing_ones() -> None:
    data = b"a,b,c\nd\ne,,\n"
    assert objects(data, "SELECT * FROM S3Object") == [
        {"_1": "a", "_2": "b", "_3": "c"},
        {"_1": "d"},
        {"_1": "e", "_2": "", "_3": ""},
    ]
    missing = "SELECT s._1 FROM S3Object s WHERE s._2 IS MISSING"
    assert result(data, missing) == "d\n"


def test_a_late_record_with_more_fields_is_an_error() -> None:
    data = b"a,b\n" * 300_000 + b"a,b,c\n"
    assert code(data, "SELECT COUNT(*) FROM S3Object") == "CSVParsingError"


@pytest.mark.parametrize("data", [b"", b"# only\n# comments\n"])
def test_an_object_without_records_has_an_empty_result(data: bytes) -> None:
    assert result(data, "SELECT * FROM S3Object") == ""
    assert result(data, "SELECT COUNT(*) FROM S3Object") == "0\n"
    assert result(b"", "SELECT COUNT(*) FROM S3Object", LINES) == "0\n"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT s.id FROM S3Object s WHERE s.ok", [{"id": 1}]),
        ("SELECT s.id FROM S3Object s WHERE s.id > 1", [{"id": 2}, {"id": 4}]),
        ("SELECT s.USER.NAME FROM S3Object s LIMIT 1", [{"NAME": "Ada"}]),
        ('SELECT s."USER" FROM S3Object s LIMIT 1', [{}]),
        ('SELECT s."a/b~c" x FROM S3Object s WHERE s.id = 4', [{"x": 5}]),
        ("SELECT s.user.Tags[1] FROM S3Object s LIMIT 2", [{"_1": "y"}, {}]),
        ("SELECT s.size FROM S3Object s WHERE s.size IS NULL", [{"size": None}]),
        ("SELECT s.id FROM S3Object s WHERE s.ok IS MISSING", [{"id": "three"}, {"id": 4}]),
        ("SELECT s.id FROM S3Object s WHERE s.id = 'three'", [{"id": "three"}]),
        ("SELECT SUM(s.size) FROM S3Object s WHERE s.id < 3", [{"_1": 1.5}]),
        ("SELECT s.size FROM S3Object s WHERE s.id = 'three'", [{"size": 12345678901234567}]),
        ("SELECT CAST(s.id AS STRING) || '!' v FROM S3Object s LIMIT 1", [{"v": "1!"}]),
        ("SELECT COALESCE(s.size, 0) v FROM S3Object s LIMIT 2", [{"v": 1.5}, {"v": 0}]),
        ("SELECT * FROM S3Object[*].user.Tags[*] t", [{"_1": "x"}, {"_1": "y"}, {}, {}, {}]),
        ("SELECT name FROM S3Object[*].user.name LIMIT 1", [{"name": "Ada"}]),
        ("SELECT COUNT(s.size) FROM S3Object s", [{"_1": 3}]),
        ("SELECT MIN(s.id) n, AVG(s.id) a FROM S3Object s WHERE s.id > 0", [{"n": 1, "a": 7 / 3}]),
        ("SELECT s.id IN (1, 'three') v FROM S3Object s", [{"v": True}, {"v": False}, {"v": True}, {"v": False}]),
    ],
)  # fmt: skip
def test_records_of_json_lines(query: str, expected: list[Any]) -> None:
    found = objects(EVENTS, query, LINES)
    if " IN " in query:
        assert [each["v"] or False for each in found] == [each["v"] for each in expected]
    else:
        assert found == expected


def test_the_examples_of_the_documentation_of_s3() -> None:
    data = (
        b'{"Rules": [{"id": "1"}, {"expr": "y > x"}, {"id": "2", "expr": "z = DEBUG"}]}\n'
        b'{"created": "June 27", "modified": "July 6"}\n'
    )
    found = objects(data, "SELECT id FROM S3Object[*].Rules[*].id", LINES)
    assert found == [{"id": "1"}, {}, {"id": "2"}, {}]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT _1.price FROM S3Object[*].books[*]", [{"price": 1}, {"price": 2}, {}]),
        ("SELECT price FROM S3Object[*].books[*].price", [{"price": 1}, {"price": 2}, {}]),
        ("SELECT COUNT(_1) n FROM S3Object[*].books[*]", [{"n": 2}]),
        ("SELECT _1.* FROM S3Object[*].books[*] LIMIT 2", [{"price": 1}, {"price": 2}]),
        ("SELECT _1.n, s3object.n m FROM S3Object[*]", [{"n": 7, "m": 7}, {}]),
        ("SELECT _1 FROM S3Object[*] s", [{}, {"_1": 5}]),
        ("SELECT _1 FROM S3Object", [{}, {"_1": 5}]),
        ("SELECT _1.p FROM S3Object[*].shelf.*", [{"p": 1}, {"p": 2}, {}]),
        ("SELECT p FROM S3Object[*].shelf.*.p", [{"p": 1}, {"p": 2}, {}]),
        ("SELECT s.p FROM S3Object[*]['shelf'].* AS s", [{"p": 1}, {"p": 2}, {}]),
        ("SELECT COUNT(*) n FROM S3Object[*].*", [{"n": 6}]),
    ],
)
def test_paths_after_from_and_the_name_of_a_record(query: str, expected: list[Any]) -> None:
    data = (
        b'{"books": [{"price": 1}, {"price": 2}], "shelf": {"a": {"p": 1}, "b": {"p": 2}}, "n": 7}\n'
        b'{"books": [], "shelf": {}, "_1": 5}\n'
    )
    assert objects(data, query, LINES) == expected


def rows(*values: str) -> bytes:
    """Lines of JSON with one key."""
    return b"".join(b'{"a": %s}\n' % each.encode() for each in values)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("9876543.21", "9876543.21"),
        ("1e-7", "0.0000001"),
        ("1.5E-7", "0.00000015"),
        ("123.25e-8", "0.0000012325"),
        ("12.5e3", "12500"),
        ("1e20", "100000000000000000000"),
        ("-0.1", "-0.1"),
        ("18446744073709551617", "18446744073709551617"),
        ("-1234567890123456789012345678", "-1234567890123456789012345678"),
    ],
)
def test_a_number_of_json_keeps_its_digits_as_a_decimal(number: str, expected: str) -> None:
    data = rows(number)
    query = "SELECT CAST(s.a AS DECIMAL) FROM S3Object s"
    assert result(data, query, LINES) == f"{expected}\n"
    text = rows(f'"{number}"')
    assert result(text, query, LINES) == f"{expected}\n"
    same = f"CAST(s.a AS DECIMAL) = CAST('{expected}' AS DECIMAL)"
    assert objects(data, f"SELECT {same} AS x FROM S3Object s", LINES) == [{"x": True}]  # noqa: S608


@given(st.lists(st.decimals(-(10**9), 10**9, places=5), min_size=1, max_size=20))
def test_decimals_of_json_and_of_floats_are_those_of_the_text(numbers: list[Decimal]) -> None:
    data = rows(*(f"{each:f}" for each in numbers))
    for cast in ("CAST(s.a AS DECIMAL)", "CAST(CAST(s.a AS FLOAT) AS DECIMAL)"):
        query = f"SELECT {cast} FROM S3Object s"  # noqa: S608 - of constants
        assert [Decimal(each) for each in result(data, query, LINES).split()] == numbers


@pytest.mark.parametrize("number", ["0.12345678901", "1e-11", "1.23e-9", '"1e-99999"', "1e300"])
def test_a_number_that_would_lose_digits_is_no_decimal(number: str) -> None:
    query = "SELECT CAST(s.a AS DECIMAL) FROM S3Object s"
    assert code(rows(number), query, LINES) == "CastFailed"


@pytest.mark.parametrize("expression", ["MAX(s.a)", "MIN(s.a)", "SUM(s.a)", "AVG(s.a)"])
def test_large_whole_numbers_of_json_are_refused_instead_of_changed(expression: str) -> None:
    query = f"SELECT {expression} FROM S3Object s"  # noqa: S608 - of constants
    for number in ("9007199254740993", "-9007199254740993", "18446744073709551617"):
        assert code(rows(number), query, LINES) == "IntegerOverflow", number
    assert result(rows("1e20"), query, LINES) == "1e+20\n"
    assert code(rows("9007199254740993"), "SELECT s.a + 1 FROM S3Object s", LINES) == (
        "IntegerOverflow"
    )
    exact = query.replace("s.a", "CAST(s.a AS INT)")
    if not expression.startswith("AVG"):
        assert result(rows("9007199254740993"), exact, LINES) == "9007199254740993\n"


def test_a_sum_of_whole_numbers_of_json_is_exact_or_refused() -> None:
    query = "SELECT SUM(s.a) FROM S3Object s"
    half = "4503599627370496"
    assert code(rows(half, half, "1"), query, LINES) == "IntegerOverflow"
    assert result(rows("4503599627370495", half, "null"), query, LINES) == "9007199254740991\n"
    assert result(rows("1e20", "2"), query, LINES) == "1e+20\n"
    assert result(rows("null"), query, LINES) == "\n"


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("whole", "other"),
    [
        ("9007199254740993", "9007199254740992.0"),
        ("9007199254740992", "9007199254740992.5"),
        ("1", "1.25"),
        ("-1", "-1.25"),
        ("-2", "-1.25"),
        ("7", "7.0"),
        ("18446744073709551617", "18446744073709551616.5"),
    ],
)
def test_whole_numbers_of_json_compare_with_decimals_exactly(
    sign: str, whole: str, other: str
) -> None:
    compare = COMPARISONS[sign]
    query = f"SELECT s.a {sign} {other} AS x, {other} {sign} s.a AS y FROM S3Object s"  # noqa: S608
    assert objects(rows(whole), query, LINES) == [
        {
            "x": compare(Decimal(whole), Decimal(other)),
            "y": compare(Decimal(other), Decimal(whole)),
        }
    ]


def test_whole_numbers_above_64_bits_compare_exactly() -> None:
    data = b'{"a": 18446744073709551617, "b": 18446744073709551616}\n'
    query = "SELECT s.a = s.b AS x, s.a > s.b AS y, s.a = s.a AS z, s.a > 5 AS w FROM S3Object s"
    assert objects(data, query, LINES) == [{"x": False, "y": True, "z": True, "w": True}]


def test_a_document_of_json_has_values_of_several_lines() -> None:
    data = b'{"a":\n 1}\n{"a": 2} {"a":\n3}'
    assert result(data, "SELECT s.a FROM S3Object s", {"type": "DOCUMENT"}) == "1\n2\n3\n"
    nested = b'[{"a": 1},\n {"a": 2}]'
    query = "SELECT s.a FROM S3Object[*][*] s"
    assert result(nested, query, {"type": "DOCUMENT"}) == "1\n2\n"


def test_all_values_of_json_become_fields_of_csv() -> None:
    data = b'{"a": "x,y", "b/c": null, "d": {"e": [1, 2]}}\n{"z": true}\n'
    assert result(data, "SELECT * FROM S3Object s", LINES) == '"x,y",,"{""e"":[1,2]}"\ntrue\n'


@pytest.mark.parametrize(("name", "pack"), [("GZIP", gzip.compress), ("BZIP2", bz2.compress)])
def test_compressed_objects(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(PEOPLE)
    *_, (kind, counts) = run(packed, "SELECT * FROM S3Object", compression=name)
    assert (kind, struct.unpack(">QQ", counts)) == ("S", (len(packed), len(PEOPLE)))
    assert code(packed[:-4], "SELECT * FROM S3Object", compression=name) == "TruncatedInput"
    wrong = code(b"x" + packed, "SELECT * FROM S3Object", compression=name)
    assert wrong == "InvalidCompressionFormat"


def test_the_number_of_columns_of_a_large_object_with_cr() -> None:
    data = b"a,b,c\r" * 200_000
    source = {"header": "NONE", "record": "\r"}
    query = "SELECT COUNT(*), MIN(CAST(s._3 = 'c' AS INT)) FROM S3Object s"
    assert result(data, query, source) == "200000,1\n"


@pytest.mark.parametrize("header", ["NONE", "USE", "IGNORE"])
@pytest.mark.parametrize("data", [b"a,b\r1,2\r", b"a\rb\n1\n", b"a\r", b"a,b\n1,2\r3,4\n"])
def test_a_cr_that_ends_no_record_is_an_error_in_the_header_too(header: str, data: bytes) -> None:
    assert code(data, "SELECT * FROM S3Object", {"header": header}) == "CSVParsingError"


def test_an_empty_line_is_no_record_of_one_column() -> None:
    assert result(b"a\n\nb\n" * 400_000, "SELECT COUNT(*) FROM S3Object") == "800000\n"


@pytest.mark.parametrize(("data", "expected"), [(b"5", "1\n"), (b"[", "JSONParsingError")])
def test_json_lines_of_one_byte(data: bytes, expected: str) -> None:
    query = "SELECT COUNT(*) FROM S3Object"
    found = result(data, query, LINES) if data == b"5" else code(data, query, LINES)
    assert found == expected


@pytest.mark.parametrize("header", ["USE", "IGNORE"])
@pytest.mark.parametrize("begin", [b"\n", b"\r\n\r\n", b"# one\n\n", b"\n" * 300_000])
def test_empty_lines_before_a_header_are_none(header: str, begin: bytes) -> None:
    end = b"\r\n" if begin.startswith(b"\r") else b"\n"
    for lines in ([b"name", b"Ada", b"Bo"], [b"name,age", b"Ada,36", b"Bo,7"]):
        data = begin + b"".join(line + end for line in lines)
        found = result(data, "SELECT * FROM S3Object", {"header": header})
        assert found == b"".join(line + b"\n" for line in lines[1:]).decode()


def test_a_repeated_name_has_the_key_of_its_position() -> None:
    data = b"a,a,_2,b\n1,2,3,4,5\n"
    assert objects(data, "SELECT * FROM S3Object", USE) == [
        {"a": "1", "_2": "2", "_3": "3", "b": "4", "_5": "5"}
    ]


def test_a_large_result_streams_in_frames() -> None:
    data = b"".join(b"%d,%s\n" % (number, b"x" * 90) for number in range(40_000))
    found = run(data, "SELECT * FROM S3Object")
    assert b"".join(each for kind, each in found if kind == "R") == data
    assert len([kind for kind, _ in found if kind == "R"]) > 50


# --- dialects of CSV ------------------------------------------------------------------------------

FIELDS = st.text(st.sampled_from("ab c,;\t'\"\\\n\r€שé#0"), max_size=5)


@given(
    table=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6),
    delimiter=st.sampled_from([",", ";", "\t"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_records_are_those_of_the_csv_module(
    table: list[tuple[str, str]], delimiter: str, line_end: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerows(table)
    source = {"delimiter": delimiter, "header": "NONE", "quoted_records": True}
    found = objects(text.getvalue().encode(), "SELECT s._1, s._2 FROM S3Object s", source)
    assert found == [{"_1": first, "_2": second} for first, second in table]


@given(table=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
def test_a_result_reads_back_as_it_was(table: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(table)
    source = {"header": "NONE", "quoted_records": True}
    found = result(text.getvalue().encode(), "SELECT * FROM S3Object s", source)
    assert [tuple(row) for row in csv.reader(io.StringIO(found, newline=""))] == table


@pytest.mark.parametrize("escape", ['"', "\\"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoted_records", [False, True])
def test_each_record_is_there_once_in_any_buffers(
    quoted_records: bool, escape: str, line_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Threads of the engine would begin where a buffer does.
    monkeypatch.setattr("select_tables.BUFFER_BYTES", 2000)
    monkeypatch.setattr("select_tables.MOST_RECORD_BYTES", 1000)
    dice = random.Random(escape + line_end)  # noqa: S311 - the same objects each time
    texts = ["a", "", ",", ",,", ",a,", '"', '",', ',"', '","', 'x "y"', "longer, much longer"]
    if quoted_records:
        texts += ["two\nlines", "a\r\n,b", "\r\n", "\n", '"\r\n"', "c\rd"]
    for _ in range(8):
        some = dice.sample(texts, dice.randrange(2, len(texts)))
        written = {each: _quoted(each, escape) for each in ["k", *texts]}
        table = [
            ("k", *dice.choices(some, k=dice.randrange(1, 4))) for _ in range(dice.randrange(3000))
        ]
        source = {
            "header": "NONE", "record": line_end, "escape": escape, "quoted_records": quoted_records,
        }  # fmt: skip
        empty = dice.choice([0.0, 0.1])
        data = "".join(
            ",".join(map(written.__getitem__, row)) + line_end * (1 + (dice.random() < empty))
            for row in table
        )
        found = objects(data.encode(), "SELECT * FROM S3Object", source)
        assert found == [{f"_{n}": each for n, each in enumerate(row, 1)} for row in table]


@pytest.mark.parametrize("quoted_records", [False, True])
@pytest.mark.parametrize("record", ["\n", "\r\n"])
def test_an_empty_line_at_the_end_of_a_buffer_is_no_part_of_a_value(
    record: str, quoted_records: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("select_tables.BUFFER_BYTES", 2000)
    monkeypatch.setattr("select_tables.MOST_RECORD_BYTES", 1000)
    source = {"header": "NONE", "record": record, "quoted_records": quoted_records}
    begin = b'"p\r\nq",1\r\n' if quoted_records else b"p,1\r\n"
    # Seven bytes: buffers of 2,000 bytes end after each of them.
    data = begin + b"k,1\r\n\r\n" * 4000
    found = objects(data, "SELECT s._1 FROM S3Object s", source)
    assert found[0] == {"_1": "p\r\nq" if quoted_records else "p"}
    assert found[1:] == [{"_1": "k"}] * 4000


@given(
    lines=st.lists(st.sampled_from([b"a", b"", b"b\r", b"\rc"]), max_size=8),
    line_end=st.sampled_from([b"\n", b"\r\n"]),
    size=st.integers(1, 9),
)
def test_line_ends_are_those_of_the_first_record(
    lines: list[bytes], line_end: bytes, size: int
) -> None:
    streams: Any = MODULE.select_streams
    data = b"first" + line_end + b"".join(line + line_end for line in lines) + b"\r"
    stream = streams.LineFeeds(io.BytesIO(data), MODULE.CsvInput())
    found = b"".join(iter(lambda: stream.read(size), b""))
    assert found == (data.replace(b"\r\n", b"\n") if line_end == b"\r\n" else data)


def test_a_line_feed_alone_ends_no_record_that_ends_with_two_characters() -> None:
    source = {"header": "NONE", "record": "\r\n"}
    assert result(b"a,b\r\nc,d\r\n", "SELECT * FROM S3Object", source) == "a,b\nc,d\n"
    for data in (b"a,b\nc,d\n", b"a,b\r\nc,d\ne,f\r\n"):
        assert code(data, "SELECT * FROM S3Object", source) == "CSVParsingError"
    source = {"header": "NONE", "record": "\n"}
    found = result(b"a,b\r\nc,d\ne,f\r\n", "SELECT * FROM S3Object", source)
    assert found == "a,b\nc,d\ne,f\n"


def _quoted(field: str, escape: str) -> str:
    return field if field.isalnum() else '"' + field.replace('"', escape + '"') + '"'


def test_an_escape_that_is_no_quote() -> None:
    source = {"header": "NONE", "escape": "\\"}
    data = b'"a\\"b",1\n# "\n"c\\\\",2\n'
    assert objects(data, "SELECT * FROM S3Object", source) == [
        {"_1": 'a"b', "_2": "1"},
        {"_1": "c\\", "_2": "2"},
    ]


def test_a_comment_within_quotes_is_data() -> None:
    data = b'"a\n# b",1\n# "\n2,3\n'
    source = {"header": "NONE", "quoted_records": True}
    assert objects(data, "SELECT s._1 FROM S3Object s", source) == [{"_1": "a\n# b"}, {"_1": "2"}]
    assert code(data, "SELECT s._1 FROM S3Object s") == "CSVEscapingRecordDelimiter"
    kept = objects(b"#a,1\n", "SELECT s._1 FROM S3Object s", {"header": "NONE", "comment": ""})
    assert kept == [{"_1": "#a"}]


@given(
    lines=st.lists(st.binary(max_size=6).map(lambda data: data.hex().encode()), max_size=8),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_scan_ranges_have_each_record_once(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    streams: Any = MODULE.select_streams
    bounds = sorted({0, *cuts})
    found = []
    for start, after in zip(bounds, [*bounds[1:], None], strict=True):
        source = io.BytesIO(data[max(start - 1, 0) :])
        end = None if after is None else after - 1
        ranged = streams.Ranged(source, start, end)
        found.append(b"".join(iter(lambda stream=ranged: stream.read(3), b"")))
    assert b"".join(found) == data


def test_a_scan_range_of_an_object() -> None:
    data = b"aa\nbb\ncc\n"
    assert result(data[2:], "SELECT * FROM S3Object", start=3, end=3) == "bb\n"
    assert result(data[3:], "SELECT * FROM S3Object", start=4) == "cc\n"
    assert result(data[3:], "SELECT * FROM S3Object", start=4, end=5) == ""
    assert code(data, "SELECT * FROM S3Object", USE, start=4) == "UnsupportedScanRangeInput"


# --- expressions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3 - 4 % 3", 6),
        ("-7 / 2", -3),
        ("7 / 2", 3),
        ("-7 % 3", -1),
        ("-9223372036854775808", -(2**63)),
        ("- 9223372036854775808 + 1", 1 - 2**63),
        ("0.1 + 0.2", 0.3),
        ("CAST('1.10' AS DECIMAL)", 1.1),
        ("CAST('12345678901234567890.123' AS DECIMAL(30, 3)) || ''", None),
        ("CAST(CAST('12345678901234567890.123' AS DECIMAL(30, 3)) AS STRING)", "12345678901234567890.123"),
        ("CAST(CAST('1.239' AS DECIMAL(5, 2)) AS STRING)", "1.24"),
        ("CAST(1.9 AS INT)", 1),
        ("CAST('+5' AS INT)", 5),
        ("CAST('1e3' AS FLOAT)", 1000),
        ("CAST('TRUE' AS BOOL)", True),
        ("CAST(12 AS STRING)", "12"),
        ("CAST(1e20 AS STRING)", "1e+20"),
        ("CAST(NULL AS INT)", None),
        ("CHAR_LENGTH('é€')", 2),
        ("CHARACTER_LENGTH('')", 0),
        ("LOWER('ÀB') || UPPER('c')", "àbC"),
        ("SUBSTRING('123456789', 0)", "123456789"),
        ("SUBSTRING('123456789', -1)", "123456789"),
        ("SUBSTRING('123456789', 0, 2)", "12"),
        ("SUBSTRING('123456789', -4, 5)", "12345"),
        ("SUBSTRING('123456789' FROM 2 FOR 3)", "234"),
        ("SUBSTRING('123', 2, 999999999)", "23"),
        ("TRIM('  a ')", "a"),
        ("TRIM(LEADING FROM '  a ')", "a "),
        ("TRIM(BOTH '12' FROM '1112a22')", "a"),
        ("TRIM(TRAILING 'x' FROM 'axx')", "a"),
        ("COALESCE(NULL, NULL, 3)", 3),
        ("NULLIF(1, 1)", None),
        ("NULLIF('a', 'b')", "a"),
        ("NULLIF(1, '1')", 1),
        ("NULLIF(s._1, 1)", "1"),
        ("NULLIF(1.0, 1)", None),
        ("NULLIF(MISSING, NULL)", None),
        ("COALESCE(MISSING, 1)", 1),
        ("MISSING IS MISSING AND MISSING IS NULL", True),
        ("CASE WHEN 1 = 2 THEN 'x' WHEN TRUE THEN 'y' END", "y"),
        ("CASE 3 WHEN 1 THEN 'x' ELSE 'z' END", "z"),
        ("'a%b' LIKE 'a$%%' ESCAPE '$'", True),
        ("'aXb' NOT LIKE 'a_b'", False),
        ("2 BETWEEN 1 AND 3 AND NOT 4 IN (1, 2)", True),
        ("1 <> 2 OR NULL", True),
        ("1 = NULL", None),
        ("NULL IS NULL", True),
        ("DATE_ADD(month, 13, `2010T`)", "2011-02T"),
        ("DATE_ADD(second, -1, `2017-01-02T03:04:05.006Z`)", "2017-01-02T03:04:04.006Z"),
        ("DATE_ADD(year, -2009, `2010T`)", "0001T"),
        ("DATE_ADD(second, -1, DATE_ADD(year, 7990, DATE_ADD(second, 1, `2009T`)))", "9999-01-01T00:00:00-00:00"),
        ("TO_TIMESTAMP('9999-12-31T23:59:59Z')", "9999-12-31T23:59:59Z"),
        ("DATE_DIFF(month, `2010T`, `2011T`)", 12),
        ("DATE_DIFF(month, `2011T`, `2010T`)", -12),
        ("DATE_DIFF(day, `2010-01-01T23:00Z`, `2010-01-02T01:00Z`)", 0),
        ("EXTRACT(year FROM `2010-03-01T`)", 2010),
        ("EXTRACT(timezone_hour FROM `2010T`)", 0),
        ("TO_STRING(`1969-07-20T20:18Z`, 'MMMM d, y h:m a')", "July 20, 1969 8:18 PM"),
        ("TO_STRING(`1969-07-20T20:18Z`, 'y-MM-dd''T''HH:mm:ssX')", "1969-07-20T20:18:00Z"),
        ("TO_TIMESTAMP('2007-02-23T12:14:33.079-08:00')", "2007-02-23T12:14:33.079-08:00"),
        ("CAST('2007-04-05T14:30Z' AS TIMESTAMP) < UTCNOW()", True),
        ("UTCNOW() = UTCNOW()", True),
    ],
)  # fmt: skip
def test_values_of_expressions(expression: str, expected: Any) -> None:
    if expression.endswith("|| ''"):
        failed = code(b"1\n", f"SELECT {expression} FROM S3Object")  # noqa: S608
        assert failed == "IncorrectSqlFunctionArgumentType"
    else:
        assert value(expression) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "ParseUnsupportedSelect"),
        ("DELETE FROM S3Object", "ParseUnsupportedSelect"),
        ("SELECT FROM S3Object", "ParseEmptySelect"),
        ("SELECT 1", "ParseSelectMissingFrom"),
        ("SELECT * FROM Other", "InvalidDataSource"),
        ("SELECT *, s._1 FROM S3Object s", "ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT t.* FROM S3Object s", "InvalidTableAlias"),
        ("SELECT _1.* FROM S3Object s", "InvalidTableAlias"),
        ("SELECT s.user.* FROM S3Object s", "ParseInvalidContextForWildcardInSelectList"),
        ("SELECT s[0].* FROM S3Object s", "ParseInvalidContextForWildcardInSelectList"),
        ("SELECT * FROM S3Object s, S3Object t", "MultipleDataSourcesUnsupported"),
        ("SELECT * FROM S3Object s JOIN S3Object t", "UnsupportedSqlOperation"),
        ("SELECT _1 FROM S3Object GROUP BY _1", "UnsupportedSqlOperation"),
        ("SELECT _1 FROM S3Object ORDER BY _1", "UnsupportedSqlOperation"),
        ("SELECT DISTINCT _1 FROM S3Object", "UnsupportedSqlOperation"),
        ("SELECT _1 FROM S3Object WHERE (SELECT 1)", "UnsupportedSqlStructure"),
        ("SELECT _1, COUNT(*) FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT SUM(COUNT(*)) FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT _1 FROM S3Object WHERE COUNT(*) > 1", "UnsupportedSqlStructure"),
        ("SELECT _1 FROM S3Object LIMIT -1", "EvaluatorNegativeLimit"),
        ("SELECT _1 FROM S3Object LIMIT x", "ParseExpectedNumber"),
        ("SELECT _1 FROM S3Object LIMIT 99999999999999999999", "IntegerOverflow"),
        ("SELECT _0 FROM S3Object", "InvalidColumnIndex"),
        ("SELECT name FROM S3Object", "EvaluatorBindingDoesNotExist"),
        ("SELECT s._1.x FROM S3Object s", "ParseInvalidPathComponent"),
        ("SELECT t._1 FROM S3Object s", "InvalidTableAlias"),
        ("SELECT -9223372036854775809 FROM S3Object", "IntegerOverflow"),
        ("SELECT 9223372036854775808 FROM S3Object", "IntegerOverflow"),
        ("SELECT s._1[*] FROM S3Object s", "ParseInvalidContextForWildcardInSelectList"),
        ("SELECT s.* = 1 FROM S3Object s", "ParseInvalidPathComponent"),
        ("SELECT FLOOR(1) FROM S3Object", "UnsupportedFunction"),
        ("SELECT read_text('/etc/passwd') FROM S3Object", "UnsupportedFunction"),
        ("SELECT LOWER(_1, _1) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT SUM(_1) FROM S3Object", "IncorrectSqlFunctionArgumentType"),
        ("SELECT SUM() FROM S3Object", "ParseNonUnaryAgregateFunctionCall"),
        ("SELECT SUM(*) FROM S3Object", "ParseUnsupportedCallWithStar"),
        ("SELECT _1 FROM S3Object WHERE _1 > 3", "IncorrectSqlFunctionArgumentType"),
        ("SELECT _1 FROM S3Object WHERE _1", "IncorrectSqlFunctionArgumentType"),
        ("SELECT CAST(_1 AS INT) FROM S3Object", "CastFailed"),
        ("SELECT CAST('' AS INT) FROM S3Object", "CastFailed"),
        ("SELECT CAST('1.5' AS INT) FROM S3Object", "CastFailed"),
        ("SELECT CAST('99999999999999999999' AS INT) FROM S3Object", "CastFailed"),
        ("SELECT CAST('0.12345678901' AS DECIMAL) FROM S3Object", "CastFailed"),
        ("SELECT CAST(1e-11 AS DECIMAL) FROM S3Object", "CastFailed"),
        ("SELECT CAST('1e-99999999999' AS DECIMAL) FROM S3Object", "CastFailed"),
        ("SELECT CAST('1000' AS DECIMAL(3)) FROM S3Object", "CastFailed"),
        ("SELECT CAST('x' AS BLOB) FROM S3Object", "InvalidDataType"),
        ("SELECT CAST(TRUE AS TIMESTAMP) FROM S3Object", "InvalidCast"),
        ("SELECT CAST(1 AS DECIMAL(50)) FROM S3Object", "ParseInvalidTypeParam"),
        ("SELECT CAST(1 AS INT(3)) FROM S3Object", "ParseCastArity"),
        ("SELECT 9223372036854775807 + 1 FROM S3Object", "IntegerOverflow"),
        ("SELECT 1 / 0 FROM S3Object", "IllegalSqlFunctionArgument"),
        ("SELECT 1 % (2 - 2) FROM S3Object", "IllegalSqlFunctionArgument"),
        ("SELECT SUBSTRING('a', 1, -1) FROM S3Object", "IllegalSqlFunctionArgument"),
        ("SELECT 'a' LIKE 'a$' ESCAPE '$' FROM S3Object", "EvaluatorLikePatternInvalidEscapeSequence"),
        ("SELECT 'a' LIKE 'a' ESCAPE 'xy' FROM S3Object", "LikeInvalidInputs"),
        ("SELECT `2010` FROM S3Object", "LexerInvalidIONLiteral"),
        ("SELECT `2010-13T` FROM S3Object", "LexerInvalidIONLiteral"),
        ("SELECT 'a FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT 1x FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT 1e999 FROM S3Object", "LexerInvalidLiteral"),
        ("SELECT \x00 FROM S3Object", "LexerInvalidChar"),
        ("SELECT a ! b FROM S3Object", "LexerInvalidOperator"),
        ("SELECT (1 FROM S3Object", "ParseUnexpectedToken"),
        ("SELECT (1, 2) FROM S3Object", "ParseUnsupportedSyntax"),
        ("SELECT CASE END FROM S3Object", "ParseUnExpectedKeyword"),
        ("SELECT DATE_ADD(week, 1, `2010T`) FROM S3Object", "ParseExpectedDatePart"),
        ("SELECT TO_STRING(`2010T`, 'Q') FROM S3Object", "EvaluatorInvalidTimestampFormatPatternSymbol"),
        ("SELECT TO_STRING(`2010T`, _1) FROM S3Object", "EvaluatorInvalidTimestampFormatPattern"),
        ("SELECT TO_STRING(`2010T`, '''x') FROM S3Object", "EvaluatorUnterminatedTimestampFormatPatternToken"),
        ("SELECT TO_TIMESTAMP('June') FROM S3Object", "ValueParseFailure"),
        ("SELECT TO_TIMESTAMP('0000T') FROM S3Object", "ValueParseFailure"),
        ("SELECT DATE_ADD(year, 7990, `2010T`) FROM S3Object", "IntegerOverflow"),
        ("SELECT DATE_ADD(day, -730000, `1999T`) FROM S3Object", "IntegerOverflow"),
        ("SELECT DATE_ADD(day, 2000000000, `2010T`) FROM S3Object", "IntegerOverflow"),
        ("SELECT DATE_ADD(hour, 99999999999999, `2010T`) FROM S3Object", "IntegerOverflow"),
        ("SELECT TO_TIMESTAMP('2026-01-01T24:00:00Z') FROM S3Object", "ValueParseFailure"),
        ("SELECT CAST('2026-01-01T00:00+25:00' AS TIMESTAMP) FROM S3Object", "CastFailed"),
        ("SELECT _1 FROM S3Object extra words", "ParseUnexpectedToken"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT " + "NOT " * 5000 + "TRUE FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT " + "-1 + " * 5000 + "1 FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT " + "CAST(CAST(" * 15 + "_1" + " AS INT) AS STRING)" * 15 + " FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT " + "9" * 10_000 + " FROM S3Object", "IntegerOverflow"),
    ],
)  # fmt: skip
def test_faults_of_a_query(query: str, expected: str) -> None:
    assert code(b"a\n", query) == expected


def test_names_of_columns_are_found_once() -> None:
    data = b"a,A,b\n1,2,3\n"
    assert code(data, "SELECT s.a FROM S3Object s", USE) == "AmbiguousFieldName"
    assert result(data, 'SELECT s."A" FROM S3Object s', USE) == "2\n"
    assert code(data, "SELECT s.x FROM S3Object s", USE) == "MissingHeaders"


@pytest.mark.parametrize(
    ("data", "query", "expected"),
    [
        (b'{"a": 1}\n{"a": \n', "SELECT s.a FROM S3Object s", "JSONParsingError"),
        (b'{"a": "x"}\n', "SELECT SUM(s.a) FROM S3Object s", "IncorrectSqlFunctionArgumentType"),
        (b'{"a": "\xff"}\n', "SELECT s.a FROM S3Object s", "InvalidTextEncoding"),
        (b'{"a": 1} {"a": 2}\n', "SELECT s.a FROM S3Object s", "JSONParsingError"),
        (b'{"a": "x"}\n', "SELECT CAST(s.a AS INT) FROM S3Object s", "CastFailed"),
        (b'{"a": [1]}\n', "SELECT CAST(s.a AS INT) FROM S3Object s", "CastFailed"),
        (
            b'{"a": "' + b"x" * (2 << 20) + b'"}\n',
            "SELECT s.a FROM S3Object s",
            "OverMaxRecordSize",
        ),
    ],
)
def test_faults_of_json(data: bytes, query: str, expected: str) -> None:
    assert code(data, query, LINES) == expected


@pytest.mark.parametrize("header", ["NONE", "USE", "IGNORE"])
def test_a_first_record_of_csv_has_at_most_one_mib(header: str) -> None:
    """The engine has all of a longer one in memory: 100 MiB of it are over the limit."""
    record = b"x" * (1 << 20)
    count = "SELECT COUNT(*) FROM S3Object"
    source = {"header": header}
    for data in (record + b"x\n1\n", record + b"x" * (9 << 20)):
        assert code(data, count, source) == "OverMaxRecordSize"
    for data in (b"a\n" + record[:-1] + b"\n1\n", record[:-1] + b"\n1\n", record[:-1]):
        assert run(data, count, source)[-1][0] != "E"


@pytest.mark.parametrize(
    ("source", "line", "end"),
    [
        (CSV, b"%d,x", b"\n"),
        ({"header": "NONE", "record": "\r"}, b"%d,x", b"\r"),
        ({"header": "NONE", "other_record": "|", "comment": ""}, b"%d,x", b"|"),
        (LINES, b'{"_1": "%d"}', b"\n"),
    ],
)
@pytest.mark.parametrize("where", ["", " WHERE s._1 = 'zz'"])
def test_a_late_record_that_is_too_long(
    source: dict[str, Any], line: bytes, end: bytes, where: str
) -> None:
    # More than the head.
    data = b"".join(line % number + end for number in range(150_000))
    query = f"SELECT COUNT(*) FROM S3Object s{where}"  # noqa: S608 - of constants
    assert result(data, query, source) == ("0\n" if where else "150000\n")
    long = line.replace(b"%d", b"y" * (3 << 20))
    assert code(data + long + end, query, source) == "OverMaxRecordSize"


@pytest.mark.parametrize(
    "data", [b"\xff\xfe,1\n", b"a,b\x00c\n", b'"a,1\n', b"x" * (2 << 20), b"," * 20_000 + b"\n"]
)
def test_hostile_objects_end_in_one_error_or_in_all_their_data(data: bytes) -> None:
    kind, last = run(data, "SELECT COUNT(*) FROM S3Object")[-1]
    assert kind in ("E", "S"), last
    if kind == "S":
        assert result(data, "SELECT COUNT(*) FROM S3Object") == "1\n"


#: Of more than the head of an object and some blocks; its lines do not end where blocks do.
MANY = b"1,abc\n" * 500_000


@pytest.mark.parametrize(
    "wrong", [b"Zo\xeb", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xe9,", b'"\xe9"']
)
@pytest.mark.parametrize(("before", "after"), [(b"", b"\n"), (b"a,", b""), (b"a,", b",2\n")])
def test_csv_that_is_not_in_utf_8_is_an_error(before: bytes, wrong: bytes, after: bytes) -> None:
    assert code(before + wrong + after, "SELECT s._2 FROM S3Object s") == "InvalidTextEncoding"


@pytest.mark.parametrize("query", ["SELECT s._1 FROM S3Object s", "SELECT COUNT(*) FROM S3Object"])
@pytest.mark.parametrize("end", [b"1,\xe9\n", b"1,\xe9", b"\xe9", b"\xe9\n" + MANY])
def test_all_of_csv_is_checked_to_be_in_utf_8(query: str, end: bytes) -> None:
    assert code(MANY + end, query) == "InvalidTextEncoding"


@pytest.mark.parametrize("wrong", [b'{"a": "\xe9"}\n', b'{"\xff": 1}', "[1]".encode("utf-16")])
@pytest.mark.parametrize("before", [b"", b'{"a": "abc"}\n' * 200_000])
def test_json_that_is_not_in_utf_8_is_an_error(before: bytes, wrong: bytes) -> None:
    assert code(before + wrong, "SELECT s.a FROM S3Object s", LINES) == "InvalidTextEncoding"


def test_the_encoding_of_a_scan_range_is_checked_alone() -> None:
    data = b"a\n" * 10 + b"\xe9\n" + b"b\n" * 10
    query = "SELECT * FROM S3Object"
    assert result(data, query, start=0, end=18) == "a\n" * 10
    # The object is read from one byte before the range.
    assert result(data[21:], query, start=22) == "b\n" * 10
    assert code(data, query, start=0, end=20) == "InvalidTextEncoding"


def test_a_character_may_be_in_two_blocks() -> None:
    """Each block of the object ends within a character in one of these."""
    for size in range(4):
        data = "x" * size + "\u20ac\U0001f600\n" * 300_000
        assert result(data.encode(), "SELECT s._1 FROM S3Object s") == data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'a\n"b,1\n', "CSVParsingError"),
        (b'a,5" disk\n', "CSVUnescapedQuote"),
        (b'a, "x"\n', "CSVUnescapedQuote"),
        (b'"x"y,1\n', "CSVUnescapedQuote"),
        (b'"x', "CSVParsingError"),
        (b'"', "CSVParsingError"),
    ],
)
def test_a_quote_without_a_place_is_an_error(data: bytes, expected: str) -> None:
    """To the engine, a quote without an end is the end of the object."""
    source = {"header": "NONE", "quoted_records": True}
    assert code(data, "SELECT * FROM S3Object", source) == expected


@pytest.mark.parametrize("data", [b'1,"abc\\', b'1,"abc\\"', b'1,"\\'])
@pytest.mark.parametrize("quoted_records", [False, True])
def test_an_escape_at_the_end_is_no_closing_quote(data: bytes, quoted_records: bool) -> None:
    source = {"header": "NONE", "escape": "\\", "quoted_records": quoted_records}
    assert code(data, "SELECT * FROM S3Object", source) == "CSVParsingError"


@pytest.mark.parametrize("quoted_records", [False, True])
def test_without_quotes_a_quote_is_data(quoted_records: bool) -> None:
    source = {"header": "NONE", "quote": "", "escape": "", "quoted_records": quoted_records}
    found = objects(b'"a,5"\n#x\nb"c,1\n', "SELECT * FROM S3Object", source)
    assert found == [{"_1": '"a', "_2": '5"'}, {"_1": 'b"c', "_2": "1"}]


@pytest.mark.parametrize(("quote", "escape"), [("Q", "E"), ("E", "Q"), ("^", "]"), ("-", "\\")])
def test_any_characters_quote_and_escape(quote: str, escape: str) -> None:
    source = {"header": "NONE", "quote": quote, "escape": escape}
    data = f"{quote}a,{escape}{quote}{quote},1\n#{quote}\nb,2\n".encode()
    found = objects(data, "SELECT * FROM S3Object", source)
    assert found == [{"_1": f"a,{quote}", "_2": "1"}, {"_1": "b", "_2": "2"}]


@given(
    table=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6),
    comments=st.lists(st.integers(0, 6), max_size=3),
    size=st.integers(1, 9),
)
def test_only_comments_are_removed(
    table: list[tuple[str, str]], comments: list[int], size: int
) -> None:
    lines = []
    for row in table:
        text = io.StringIO()
        quoting = csv.QUOTE_MINIMAL if not row[0].startswith("#") else csv.QUOTE_ALL
        csv.writer(text, lineterminator="\n", quoting=quoting).writerow(row)
        lines.append(text.getvalue().encode())
    whole = b"".join(lines)
    for at in sorted(comments, reverse=True):
        lines.insert(at, b'# "one, more\n')
    streams: Any = MODULE.select_streams
    form = MODULE.CsvInput(quoted_records=True)
    stream = streams.CsvText(io.BytesIO(b"".join(lines)), form)
    assert b"".join(iter(lambda: stream.read(size), b"")) == whole


def test_a_failure_after_the_first_records_is_the_last_frame() -> None:
    data = b"".join(b"%d\n" % number for number in range(300_000)) + b"x\n"
    *found, (kind, last) = run(data, "SELECT CAST(s._1 AS INT) FROM S3Object s")
    assert (kind, json.loads(last)["code"]) == ("E", "CastFailed")
    assert [kind for kind, _ in found].count("S") == 0


def test_a_parameter_of_another_caller_is_refused() -> None:
    for given_request in ("", "[]", '{"expression": 1}', '{"input": {"header": "x", "y": 1}}'):
        found = frames(STORLET.run(b"a\n", {"request": given_request}).output)
        assert json.loads(found[-1][1])["code"] == "InvalidRequestParameter", given_request


def test_progress_has_the_bytes_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("select_frames.PROGRESS_SECONDS", 0.0)
    data = b"a,b\n" * 500_000
    found = [
        struct.unpack(">QQ", each)
        for kind, each in run(data, "SELECT COUNT(*) FROM S3Object")
        if kind == "P"
    ]
    assert len(found) > 3
    assert found == sorted(found)
    assert found[-1] == (len(data), len(data))


# --- against a slow reference ---------------------------------------------------------------------

Row = tuple[str, str]
Evaluator = Callable[[Row], Any]
Pair = tuple[str, Evaluator]
WORDS = st.text(st.sampled_from("abAB %_'é"), max_size=4)


def binary(sign: str, left: Pair, right: Pair, apply: Callable[[Any, Any], Any]) -> Pair:
    def evaluate(row: Row) -> Any:
        first, second = left[1](row), right[1](row)
        return None if first is None or second is None else apply(first, second)

    return f"({left[0]} {sign} {right[0]})", evaluate


def unary(form: str, operand: Pair, apply: Callable[[Any], Any]) -> Pair:
    def evaluate(row: Row) -> Any:
        found = operand[1](row)
        return None if found is None else apply(found)

    return form.format(operand[0]), evaluate


def constant(sql: str, found: Any) -> Pair:
    return sql, lambda _: found


def text_literal(word: str) -> Pair:
    return constant("'" + word.replace("'", "''") + "'", word)


def bounded(number: int) -> int:
    if abs(number) >= 1 << 63:
        reject()
    return number


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: bounded(a + b),
    "-": lambda a, b: bounded(a - b),
    "*": lambda a, b: bounded(a * b),
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def like(word: str, pattern: str) -> bool:
    if not pattern:
        return not word
    if pattern[0] == "%":
        return any(like(word[at:], pattern[1:]) for at in range(len(word) + 1))
    return bool(word) and pattern[0] in ("_", word[0]) and like(word[1:], pattern[1:])


def either(left: Any, right: Any) -> Any:
    if left or right:
        return True
    return None if left is None or right is None else False


def chosen(test: Pair, yes: Pair, no: Pair) -> Pair:
    return (
        f"CASE WHEN {test[0]} THEN {yes[0]} ELSE {no[0]} END",
        lambda row: yes[1](row) if test[1](row) else no[1](row),
    )


def first_of(left: Pair, right: Pair) -> Pair:
    def evaluate(row: Row) -> Any:
        found = left[1](row)
        return right[1](row) if found is None else found

    return f"COALESCE({left[0]}, {right[0]})", evaluate


def unless_same(left: Pair, right: Pair) -> Pair:
    def evaluate(row: Row) -> Any:
        found = left[1](row)
        return None if found is not None and found == right[1](row) else found

    return f"NULLIF({left[0]}, {right[0]})", evaluate


def part(word: Pair, start: int, size: int) -> Pair:
    return unary(
        f"SUBSTRING({{}} FROM {start} FOR {size})",
        word,
        lambda found: "".join(
            char for at, char in enumerate(found, 1) if start <= at < max(start, 1) + size
        ),
    )


NUMBERS: st.SearchStrategy[Pair] = st.deferred(
    lambda: st.one_of(
        st.integers(-9, 9).map(lambda number: constant(f"({number})", number)),
        st.just(("CAST(s._1 AS INT)", lambda row: int(row[0]))),
        st.just(constant("CAST(NULL AS INT)", None)),
        st.tuples(st.sampled_from("+-*"), NUMBERS, NUMBERS).map(
            lambda each: binary(each[0], each[1], each[2], ARITHMETIC[each[0]])
        ),
        TEXTS.map(lambda word: unary("CHAR_LENGTH({})", word, len)),
        st.tuples(TESTS, NUMBERS, NUMBERS).map(lambda each: chosen(*each)),
        st.tuples(NUMBERS, NUMBERS).map(lambda each: first_of(*each)),
        st.tuples(NUMBERS, NUMBERS).map(lambda each: unless_same(*each)),
    )
)
TEXTS: st.SearchStrategy[Pair] = st.deferred(
    lambda: st.one_of(
        WORDS.map(text_literal),
        st.just(("s._2", lambda row: row[1])),
        st.tuples(TEXTS, TEXTS).map(
            lambda each: binary("||", each[0], each[1], lambda a, b: a + b)
        ),
        TEXTS.map(lambda word: unary("LOWER({})", word, str.lower)),
        TEXTS.map(lambda word: unary("UPPER({})", word, str.upper)),
        TEXTS.map(lambda word: unary("TRIM({})", word, lambda found: found.strip(" "))),
        st.tuples(TEXTS, st.integers(-2, 4), st.integers(0, 4)).map(lambda each: part(*each)),
        NUMBERS.map(lambda number: unary("CAST({} AS STRING)", number, str)),
        st.tuples(TESTS, TEXTS, TEXTS).map(lambda each: chosen(*each)),
    )
)
TESTS: st.SearchStrategy[Pair] = st.deferred(
    lambda: st.one_of(
        st.sampled_from([constant("TRUE", True), constant("FALSE", False)]),
        st.tuples(st.sampled_from(list(COMPARISONS)), NUMBERS, NUMBERS).map(
            lambda each: binary(each[0], each[1], each[2], COMPARISONS[each[0]])
        ),
        st.tuples(st.sampled_from(["=", "<>"]), TEXTS, TEXTS).map(
            lambda each: binary(each[0], each[1], each[2], COMPARISONS[each[0]])
        ),
        st.tuples(TEXTS, WORDS).map(
            lambda each: binary("LIKE", each[0], text_literal(each[1]), like)
        ),
        st.tuples(TESTS, TESTS).map(
            lambda each: (
                f"({each[0][0]} OR {each[1][0]})",
                lambda row: either(each[0][1](row), each[1][1](row)),
            )
        ),
        TESTS.map(lambda test: unary("NOT ({})", test, lambda found: not found)),
        NUMBERS.map(lambda number: (f"({number[0]} IS NULL)", lambda row: number[1](row) is None)),
        st.tuples(NUMBERS, st.integers(-5, 5), st.integers(-5, 5)).map(
            lambda each: unary(
                f"({{}} BETWEEN {each[1]} AND {each[2]})",
                each[0],
                lambda found: each[1] <= found <= each[2],
            )
        ),
        st.tuples(TEXTS, st.lists(WORDS, min_size=1, max_size=3)).map(
            lambda each: unary(
                f"({{}} IN ({', '.join(text_literal(word)[0] for word in each[1])}))",
                each[0],
                lambda found: found in each[1],
            )
        ),
    )
)


@given(
    number=NUMBERS,
    word=TEXTS,
    test=TESTS,
    table=st.lists(st.tuples(st.integers(-99, 99).map(str), WORDS), min_size=1, max_size=4),
)
def test_queries_give_what_the_reference_gives(
    number: Pair, word: Pair, test: Pair, table: list[Row]
) -> None:
    data = io.StringIO()
    csv.writer(data, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(table)
    query = f"SELECT {number[0]} AS n, {word[0]} AS w FROM S3Object s WHERE {test[0]}"  # noqa: S608
    expected = [{"n": number[1](row), "w": word[1](row)} for row in table if test[1](row)]
    assert objects(data.getvalue().encode(), query) == expected
