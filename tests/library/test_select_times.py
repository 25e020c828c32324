"""Timestamps of S3 Select have the offset and the precision of their text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.library.support import LibraryStorlet, shared

pytestmark = pytest.mark.usefixtures("leftovers")

STORLET = LibraryStorlet("s3-select")


def objects(data: bytes, columns: list[str]) -> list[dict[str, Any]]:
    """The records of a query with some columns of CSV, without the frames."""
    named = ", ".join(f"{column} AS c{number}" for number, column in enumerate(columns))
    request = {
        "expression": f"SELECT {named} FROM S3Object s",  # noqa: S608 - of constants
        "input": {"header": "NONE"},
        "output": {"record": "\n"},
    }
    output = STORLET.run(data, {"request": json.dumps(request)}).output
    assert b"S" in output[-21:-16], output
    return [json.loads(line) for line in output[5:-21].splitlines()]


def values(*expressions: str, data: bytes = b"x\n") -> list[Any]:
    (found,) = objects(data, list(expressions))
    return list(found.values())


TEXTS = (
    "2010T",
    "2010-02T",
    "2010-02-03",
    "2010-02-03T04:05Z",
    "2010-02-03T04:05-00:00",
    "2010-02-03T04:05:06+07:08",
    "2010-02-03T04:05:06.7-07:08",
    "2010-02-03T04:05:06.789012+00:30",
    "2010-02-03T04:05:06.700Z",
    "0001-01-01T00:00+23:59",
)


def test_a_timestamp_is_written_as_it_was_read() -> None:
    casts = [f"CAST('{text}' AS TIMESTAMP)" for text in TEXTS]
    assert values(*casts) == list(TEXTS)
    assert values(*(f"`{text}`" for text in TEXTS[:-1])) == list(TEXTS[:-1])
    columns = "\n".join(TEXTS).encode() + b"\n"
    found = objects(columns, ["TO_TIMESTAMP(s._1)", "CAST(TO_TIMESTAMP(s._1) AS STRING)"])
    assert [each["c0"] for each in found] == [each["c1"] for each in found] == list(TEXTS)


def test_the_examples_of_the_documentation_of_s3() -> None:
    examples = {
        "DATE_ADD(year, 5, `2010-01-01T`)": "2015-01-01",
        "DATE_ADD(month, 1, `2010T`)": "2010-02T",
        "DATE_ADD(day, -1, `2017-01-10T`)": "2017-01-09",
        "DATE_ADD(hour, 1, `2017T`)": "2017-01-01T01:00-00:00",
        "DATE_ADD(hour, 1, `2017-01-02T03:04Z`)": "2017-01-02T04:04Z",
        "DATE_ADD(minute, 1, `2017-01-02T03:04:05.006Z`)": "2017-01-02T03:05:05.006Z",
        "EXTRACT(HOUR FROM `2017-01-02T03:04:05+07:08`)": 3,
        "EXTRACT(MINUTE FROM `2017-01-02T03:04:05+07:08`)": 4,
        "EXTRACT(TIMEZONE_HOUR FROM `2017-01-02T03:04:05+07:08`)": 7,
        "EXTRACT(TIMEZONE_MINUTE FROM `2017-01-02T03:04:05+07:08`)": 8,
        "TO_STRING(`1969-07-20T20:18+08:00`, 'y-MM-dd''T''H:m:ssXXXX')": "1969-07-20T20:18:00+0800",
        "TO_STRING(`1969-07-20T20:18+08:00`, 'HXXXXX x')": "20+08:00 +08",
        "TO_TIMESTAMP('2007-02-23T12:14:33.079-08:00')": "2007-02-23T12:14:33.079-08:00",
    }
    assert values(*examples) == list(examples.values())


def test_months_and_parts_are_those_at_the_offset() -> None:
    late = "`2010-01-31T23:30-01:00`"
    examples = {
        f"DATE_ADD(month, 1, {late})": "2010-02-28T23:30-01:00",
        f"EXTRACT(month FROM {late})": 1,
        "EXTRACT(timezone_minute FROM DATE_ADD(second, 1, `2010-01-01T00:00-01:30`))": -30,
        f"DATE_ADD(second, CAST('1' AS INT), {late})": "2010-01-31T23:30:01-01:00",
        "DATE_DIFF(month, `2010-03-01T00:00+05:00`, `2010-04-01T00:00+05:00`)": 1,
        "TO_STRING(`2010-01-01T00:00-05:30`, 'X XX XXX x')": "-0530 -0530 -05:30 -0530",
        "TO_STRING(`2010T`, 'X x')": "Z +00",
    }
    assert values(*examples) == list(examples.values())


def test_timestamps_compare_by_their_moments() -> None:
    other = "`2010-01-01T02:00+02:00`"
    examples = {
        f"{other} = `2010T`": True,
        f"{other} IN (`2009T`, `2010T`)": True,
        f"{other} BETWEEN `2009T` AND TO_TIMESTAMP('2010-01-01T00:00Z')": True,
        f"NULLIF({other}, `2010T`)": None,
        f"COALESCE({other}, UTCNOW())": "2010-01-01T02:00+02:00",
        f"CASE WHEN 1 = 1 THEN {other} ELSE UTCNOW() END < UTCNOW()": True,
        "CAST(NULLIF(s._1, 'x') AS TIMESTAMP)": None,
        "EXTRACT(timezone_hour FROM CAST(NULLIF(s._1, 'x') AS TIMESTAMP))": None,
        "TO_STRING(CAST(NULLIF(s._1, 'x') AS TIMESTAMP), 'X')": None,
        "DATE_ADD(day, 1, CAST(NULLIF(s._1, 'x') AS TIMESTAMP))": None,
        "DATE_ADD(day, CAST(NULLIF(s._1, 'x') AS INT), `2010T`)": None,
    }
    assert values(*examples) == list(examples.values())
    data = b"2010-01-01T02:00+02:00\n2010-01-01T01:00Z\n2009-12-31T20:00-05:00\n"
    found = values("MIN(CAST(s._1 AS TIMESTAMP))", "MAX(CAST(s._1 AS TIMESTAMP))", data=data)
    assert found[0] == "2010-01-01T02:00+02:00"
    assert found[1] in ("2010-01-01T01:00Z", "2009-12-31T20:00-05:00")


def test_a_long_expression_is_there_once() -> None:
    times = shared("select_times")
    long = "lower(" * 40 + "c1" + ")" * 40
    assert times.of_text(long, "CastFailed").count(long) == 1
