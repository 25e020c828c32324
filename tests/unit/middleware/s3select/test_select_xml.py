"""The XML of a request: options, defaults, and faults with S3's codes."""

from __future__ import annotations

import json
from typing import Any

import lxml.etree
import pytest

from storlet_middleware.s3select import select_xml
from storlet_middleware.s3select.fault_codes import SelectFault

QUERY = "<Expression>SELECT 1</Expression><ExpressionType>SQL</ExpressionType>"
CSV = "<InputSerialization><CSV>{}</CSV></InputSerialization>"
LINES = "<InputSerialization><JSON><Type>LINES</Type></JSON></InputSerialization>"
OUTPUT = "<OutputSerialization><CSV>{}</CSV></OutputSerialization>"
BOTH = CSV.format("") + OUTPUT.format("")
RANGE = "<ScanRange>{}</ScanRange>"


def parsed(inner: str, root: str = "SelectObjectContentRequest") -> select_xml.SelectRequest:
    return select_xml.parse(lxml.etree.fromstring(f"<{root}>{inner}</{root}>"))


def code(inner: str, root: str = "SelectObjectContentRequest") -> str:
    with pytest.raises(SelectFault) as caught:
        parsed(inner, root)
    assert str(caught.value)
    return caught.value.code


def test_a_short_request_has_the_defaults_of_s3() -> None:
    found = parsed(QUERY + BOTH)
    assert found.source == {
        "header": "NONE",
        "comment": "#",
        "quote": '"',
        "escape": '"',
        "record": "\n",
        "delimiter": ",",
        "quoted_records": False,
        "other_record": "",
    }
    assert found.target == {
        "quotes": "ASNEEDED",
        "quote": '"',
        "escape": '"',
        "record": "\n",
        "delimiter": ",",
    }
    assert (found.compression, found.wants_progress, found.start, found.end) == (
        "NONE",
        False,
        0,
        None,
    )
    assert json.loads(found.parameter(3, 4))["start"] == 3


def test_all_options() -> None:
    options = (
        "<FileHeaderInfo>Use</FileHeaderInfo><Comments>!</Comments>"
        "<QuoteEscapeCharacter>\\</QuoteEscapeCharacter><QuoteCharacter>'</QuoteCharacter>"
        "<RecordDelimiter>&#xD;&#xA;</RecordDelimiter><FieldDelimiter> </FieldDelimiter>"
        "<AllowQuotedRecordDelimiter>TRUE</AllowQuotedRecordDelimiter>"
    )
    progress = "<RequestProgress><Enabled>true</Enabled></RequestProgress>"
    target = "<OutputSerialization><JSON><RecordDelimiter>;</RecordDelimiter></JSON></OutputSerialization>"
    packed = CSV.format(options).replace("<CSV>", "<CompressionType>GZIP</CompressionType><CSV>")
    found = parsed(QUERY + packed + target + progress)
    assert found.source == {
        "header": "USE",
        "comment": "!",
        "quote": "'",
        "escape": "\\",
        "record": "\r\n",
        "delimiter": " ",
        "quoted_records": True,
        "other_record": "",
    }
    assert found.target == {"record": ";"}
    assert (found.compression, found.wants_progress) == ("GZIP", True)


def test_parquet_has_no_options_and_may_have_a_range() -> None:
    source = (
        "<InputSerialization><CompressionType>NONE</CompressionType><Parquet/></InputSerialization>"
    )
    more = "<ScanRange><Start>5</Start><End>9</End></ScanRange>"
    found = parsed(QUERY + source + OUTPUT.format("") + more)
    assert (found.is_parquet, found.source, found.start, found.end) == (True, {}, 5, 9)
    assert json.loads(found.parameter(5, 9))["input"] == {}


def test_any_other_character_may_end_a_record() -> None:
    options = CSV.format("<RecordDelimiter>#</RecordDelimiter>")
    source = parsed(QUERY + options + OUTPUT.format("")).source
    assert (source["record"], source["other_record"], source["comment"]) == ("\n", "#", "")


def test_the_default_comment_gives_way() -> None:
    assert (
        parsed(QUERY + CSV.format("<FieldDelimiter>#</FieldDelimiter>") + OUTPUT.format("")).source[
            "comment"
        ]
        == ""
    )


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("", "MissingRequiredParameter"),
        (QUERY.replace("SELECT 1", " ") + BOTH, "MissingRequiredParameter"),
        (QUERY.replace("SELECT 1", "x" * 300_000) + BOTH, "ExpressionTooLong"),
        ("<Expression>x</Expression>" + BOTH, "MissingRequiredParameter"),
        (QUERY.replace(">SQL<", ">PartiQL<") + BOTH, "InvalidExpressionType"),
        (QUERY + OUTPUT.format(""), "MissingRequiredParameter"),
        (QUERY + CSV.format(""), "MissingRequiredParameter"),
        (QUERY + "<InputSerialization/>" + OUTPUT.format(""), "MissingRequiredParameter"),
        (QUERY + BOTH.replace("<CSV></CSV></Input", "<CSV/><Parquet/></Input"), "ObjectSerializationConflict"),
        (
            QUERY + BOTH.replace("<CSV></CSV></Input", "<CompressionType>GZIP</CompressionType><Parquet/></Input"),
            "InvalidCompressionFormat",
        ),
        (QUERY + BOTH.replace("<CSV></CSV></Input", "<JSON/></Input"), "MissingRequiredParameter"),
        (QUERY + LINES.replace("LINES", "TREE") + OUTPUT.format(""), "InvalidJsonType"),
        (QUERY + BOTH.replace("<CSV>", "<CompressionType>ZIP</CompressionType><CSV>", 1), "InvalidCompressionFormat"),
        (QUERY + CSV.format("<FileHeaderInfo>x</FileHeaderInfo>") + OUTPUT.format(""), "InvalidFileHeaderInfo"),
        (QUERY + CSV.format("<FieldDelimiter>ab</FieldDelimiter>") + OUTPUT.format(""), "InvalidRequestParameter"),
        (QUERY + CSV.format('<FieldDelimiter>"</FieldDelimiter>') + OUTPUT.format(""), "InvalidRequestParameter"),
        (QUERY + CSV.format("<FieldDelimiter>é</FieldDelimiter>") + OUTPUT.format(""), "InvalidRequestParameter"),
        (QUERY + CSV.format("<RecordDelimiter>,</RecordDelimiter>") + OUTPUT.format(""), "InvalidRequestParameter"),
        (QUERY + CSV.format("<RecordDelimiter>||</RecordDelimiter>") + OUTPUT.format(""), "InvalidRequestParameter"),
        (QUERY + CSV.format("<Comments>,</Comments>") + OUTPUT.format(""), "InvalidRequestParameter"),
        (QUERY + CSV.format("<Delimiter>,</Delimiter>") + OUTPUT.format(""), "MalformedXML"),
        (QUERY + CSV.format("<Comments/><Comments/>") + OUTPUT.format(""), "MalformedXML"),
        (QUERY + CSV.format("<Comments><b/></Comments>") + OUTPUT.format(""), "MalformedXML"),
        (QUERY + CSV.format("") + OUTPUT.format("<QuoteFields>x</QuoteFields>"), "InvalidQuoteFields"),
        (QUERY + CSV.format("") + OUTPUT.format("<RecordDelimiter>abc</RecordDelimiter>"), "InvalidRequestParameter"),
        (QUERY + BOTH + "<RequestProgress><Enabled>2</Enabled></RequestProgress>", "InvalidRequestParameter"),
        (QUERY + BOTH + "<Other/>", "MalformedXML"),
        (QUERY + BOTH + RANGE.format(""), "InvalidScanRange"),
        (QUERY + BOTH + RANGE.format("<Start>-1</Start>"), "InvalidScanRange"),
        (QUERY + BOTH + RANGE.format("<Start>9</Start><End>8</End>"), "InvalidScanRange"),
        (QUERY + BOTH + RANGE.format(f"<Start>{'9' * 40}</Start>"), "InvalidScanRange"),
        (QUERY + BOTH + RANGE.format("<End>0</End>"), "InvalidScanRange"),
        (QUERY + LINES.replace("LINES", "DOCUMENT") + OUTPUT.format("") + RANGE.format("<Start>1</Start>"), "UnsupportedScanRangeInput"),
        (QUERY + BOTH.replace("<CSV>", "<CompressionType>GZIP</CompressionType><CSV>", 1) + RANGE.format("<Start>1</Start>"), "UnsupportedScanRangeInput"),
    ],
)  # fmt: skip
def test_faults(inner: str, expected: str) -> None:
    assert code(inner) == expected


def test_another_document_is_refused() -> None:
    assert code(QUERY + BOTH, "Delete") == "MalformedXML"


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("<Start>5</Start>", (5, None, None)),
        ("<Start>5</Start><End>5</End>", (5, 5, None)),
        ("<End>9</End>", (0, None, 9)),
    ],
)
def test_scan_ranges(inner: str, expected: Any) -> None:
    found = parsed(QUERY + BOTH + RANGE.format(inner))
    assert (found.start, found.end, found.last) == expected
