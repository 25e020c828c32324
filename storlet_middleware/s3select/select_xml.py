"""The XML of ``SelectObjectContent`` as a request of ``std:s3-select``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware.s3select.fault_codes import SelectFault

#: S3's bound of an expression, in bytes; the limit of the whole document is twice as much.
MOST_EXPRESSION_BYTES: Final = 256 * 1024
MOST_BYTES: Final = 2 * MOST_EXPRESSION_BYTES
_ROOTS: Final = ("SelectObjectContentRequest", "SelectRequest")
_MOST_OFFSET: Final = (1 << 63) - 1
#: Elements that have elements; all others have text.
_TREE: Final[Mapping[str, Any]] = {
    "Expression": None,
    "ExpressionType": None,
    "RequestProgress": {"Enabled": None},
    "InputSerialization": {
        "CompressionType": None,
        "CSV": dict.fromkeys(
            (
                "AllowQuotedRecordDelimiter",
                "Comments",
                "FieldDelimiter",
                "FileHeaderInfo",
                "QuoteCharacter",
                "QuoteEscapeCharacter",
                "RecordDelimiter",
            )
        ),
        "JSON": {"Type": None},
        "Parquet": {},
    },
    "OutputSerialization": {
        "CSV": dict.fromkeys(
            (
                "FieldDelimiter",
                "QuoteCharacter",
                "QuoteEscapeCharacter",
                "QuoteFields",
                "RecordDelimiter",
            )
        ),
        "JSON": {"RecordDelimiter": None},
    },
    "ScanRange": {"Start": None, "End": None},
}
_RECORDS: Final = ("\n", "\r\n", "\r")


@dataclass(frozen=True)
class SelectRequest:
    """One valid request.

    :ivar is_parquet: whether the object is Parquet, whose ``source`` is empty.
    :ivar start: the first offset of the scan range.
    :ivar end: its last offset, both included; ``None``: the end of the object.
    :ivar last: the range is that many bytes at the end of the object; ``None``: it is not.
    """

    expression: str
    source: Mapping[str, Any]
    target: Mapping[str, Any]
    compression: str
    wants_progress: bool
    is_parquet: bool = False
    start: int = 0
    end: int | None = None
    last: int | None = None

    def parameter(self, start: int, end: int | None) -> str:
        """The parameter of the storlet for a range, as JSON in ASCII."""
        document = {
            "expression": self.expression,
            "input": self.source,
            "output": self.target,
            "compression": self.compression,
            "start": start,
            "end": end,
        }
        return json.dumps(document, separators=(",", ":"))


def parse(root: Any) -> SelectRequest:
    """The request in a parsed document.

    :param root: the root, an element of ``lxml``.
    :raises SelectFault: with S3's code of the first fault.
    """
    if root.tag not in _ROOTS:
        raise SelectFault("MalformedXML", f"the root element is {root.tag}: want {_ROOTS[0]}")
    given = _values(root, _TREE, "")
    expression = given.get("Expression", "")
    if not expression.strip():
        raise _missing("Expression")
    if len(expression.encode()) > MOST_EXPRESSION_BYTES:
        raise SelectFault("ExpressionTooLong", "Expression: has more than 256 KiB")
    if "ExpressionType" not in given:
        raise _missing("ExpressionType")
    if given["ExpressionType"].strip().upper() != "SQL":
        raise SelectFault("InvalidExpressionType", "ExpressionType: want SQL")
    source = _one(given, "InputSerialization", ("CSV", "JSON", "Parquet"))
    target = _one(given, "OutputSerialization", ("CSV", "JSON"))
    compression = _choice(
        given["InputSerialization"].get("CompressionType", "NONE"),
        ("NONE", "GZIP", "BZIP2"),
        "InvalidCompressionFormat",
        "CompressionType",
    )
    if source == "Parquet" and compression != "NONE":
        raise SelectFault("InvalidCompressionFormat", "CompressionType: Parquet requires NONE")
    form = _INPUTS[source](given["InputSerialization"][source])
    outputs = given["OutputSerialization"][target]
    enabled = given.get("RequestProgress", {}).get("Enabled", "false")
    start, end, last = _scan_range(given.get("ScanRange"), form, compression)
    return SelectRequest(
        expression=expression,
        source=form,
        target=_csv_output(outputs) if target == "CSV" else _json_output(outputs),
        compression=compression,
        wants_progress=_flag(enabled, "RequestProgress.Enabled"),
        is_parquet=source == "Parquet",
        start=start,
        end=end,
        last=last,
    )


def _values(element: Any, known: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The texts of an element's children, by their names."""
    found: dict[str, Any] = {}
    for child in element:
        name = child.tag
        if not isinstance(name, str):  # a comment
            continue
        where = f"{place}{name}"
        if name not in known:
            raise SelectFault("MalformedXML", f"{where}: there is no such element")
        if name in found:
            raise SelectFault("MalformedXML", f"{where}: is there twice")
        inner = known[name]
        if inner is None and len(child):
            raise SelectFault("MalformedXML", f"{where}: has elements: want text")
        found[name] = (child.text or "") if inner is None else _values(child, inner, f"{where}.")
    return found


def _missing(name: str) -> SelectFault:
    return SelectFault("MissingRequiredParameter", f"{name}: is missing")


def _one(given: Mapping[str, Any], name: str, formats: tuple[str, ...]) -> str:
    """Which of the formats an element has."""
    if name not in given:
        raise _missing(name)
    found = [each for each in formats if each in given[name]]
    if not found:
        raise _missing(f"{name}: one of {', '.join(formats)}")
    if len(found) > 1:
        raise SelectFault("ObjectSerializationConflict", f"{name}: want one of {', '.join(found)}")
    return found[0]


def _choice(value: str, choices: tuple[str, ...], code: str, name: str) -> str:
    word = value.strip().upper()
    if word not in choices:
        raise SelectFault(code, f"{name}: want {', '.join(choices)}")
    return word


def _flag(value: str, name: str) -> bool:
    return _choice(value, ("TRUE", "FALSE"), "InvalidRequestParameter", name) == "TRUE"


def _character(options: Mapping[str, str], name: str, default: str, least: int = 1) -> str:
    """One ASCII character, which does not end a line."""
    value = options.get(name, default)
    if not least <= len(value) <= 1 or not value.isascii() or value in ("\r", "\n", "\0"):
        raise SelectFault("InvalidRequestParameter", f"{name}: want one ASCII character")
    return value


def _require_different(characters: Mapping[str, str]) -> None:
    given = {name: value for name, value in characters.items() if value}
    if len(set(given.values())) < len(given):
        raise SelectFault(
            "InvalidRequestParameter", f"{', '.join(given)}: want different characters"
        )


def _csv_input(options: Mapping[str, str]) -> Mapping[str, Any]:
    header = _choice(
        options.get("FileHeaderInfo", "NONE"),
        ("NONE", "USE", "IGNORE"),
        "InvalidFileHeaderInfo",
        "FileHeaderInfo",
    )
    record = options.get("RecordDelimiter", "\n")
    other = ""
    if record not in _RECORDS:
        if len(record) != 1 or not record.isascii() or record == "\0":
            raise SelectFault(
                "InvalidRequestParameter", "RecordDelimiter: want CR LF or one ASCII character"
            )
        record, other = "\n", record
    quote = _character(options, "QuoteCharacter", '"', 0)
    escape = _character(options, "QuoteEscapeCharacter", '"', 0) if quote else ""
    form = {
        "header": header,
        "comment": _character(options, "Comments", "#", 0),
        "quote": quote,
        "escape": escape,
        "record": record,
        "delimiter": _character(options, "FieldDelimiter", ","),
        "quoted_records": _flag(
            options.get("AllowQuotedRecordDelimiter", "false"), "AllowQuotedRecordDelimiter"
        ),
        "other_record": other,
    }
    names = {"Comments": "comment", "FieldDelimiter": "delimiter", "QuoteCharacter": "quote"}
    characters = {name: str(form[key]) for name, key in names.items()} | {"RecordDelimiter": other}
    if escape != quote:
        characters["QuoteEscapeCharacter"] = escape
    if "Comments" not in options and form["comment"] in (form["delimiter"], quote, escape, other):
        # The default gives way to a character that the client names.
        form["comment"] = characters["Comments"] = ""
    _require_different(characters)
    return form


def _json_input(options: Mapping[str, str]) -> Mapping[str, Any]:
    if "Type" not in options:
        raise _missing("InputSerialization.JSON.Type")
    return {"type": _choice(options["Type"], ("LINES", "DOCUMENT"), "InvalidJsonType", "Type")}


def _parquet_input(_options: Mapping[str, str]) -> Mapping[str, Any]:
    return {}


_INPUTS: Final = {"CSV": _csv_input, "JSON": _json_input, "Parquet": _parquet_input}


def _record_of_output(options: Mapping[str, str]) -> str:
    record = options.get("RecordDelimiter", "\n")
    if not 1 <= len(record) <= 2 or "\0" in record:
        raise SelectFault("InvalidRequestParameter", "RecordDelimiter: want one or two characters")
    return record


def _csv_output(options: Mapping[str, str]) -> Mapping[str, Any]:
    fields = _choice(
        options.get("QuoteFields", "ASNEEDED"),
        ("ASNEEDED", "ALWAYS"),
        "InvalidQuoteFields",
        "QuoteFields",
    )
    quote = _character(options, "QuoteCharacter", '"')
    escape = _character(options, "QuoteEscapeCharacter", '"', 0) or quote
    delimiter = _character(options, "FieldDelimiter", ",")
    _require_different({"FieldDelimiter": delimiter, "QuoteCharacter": quote})
    return {
        "quotes": fields,
        "quote": quote,
        "escape": escape,
        "record": _record_of_output(options),
        "delimiter": delimiter,
    }


def _json_output(options: Mapping[str, str]) -> Mapping[str, Any]:
    return {"record": _record_of_output(options)}


def _scan_range(
    given: Mapping[str, str] | None, form: Mapping[str, Any], compression: str
) -> tuple[int, int | None, int | None]:
    """Start, end and the number of last bytes."""
    if given is None:
        return 0, None, None
    offsets = {name: _offset(value, name) for name, value in given.items()}
    if not offsets:
        raise SelectFault("InvalidScanRange", "ScanRange: want Start, End or both")
    refused = _unscannable(form, compression)
    if refused:
        raise SelectFault("UnsupportedScanRangeInput", f"ScanRange: not with {refused}")
    start, end = offsets.get("Start"), offsets.get("End")
    if start is None:
        if not end:
            raise SelectFault("InvalidScanRange", "ScanRange: End alone is a number of last bytes")
        return 0, None, end
    if end is not None and end < start:
        raise SelectFault("InvalidScanRange", "ScanRange: End is before Start")
    return start, end, None


def _offset(value: str, name: str) -> int:
    text = value.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > _MOST_OFFSET:
        raise SelectFault("InvalidScanRange", f"ScanRange.{name}: want a number of bytes")
    return int(text)


def _unscannable(form: Mapping[str, Any], compression: str) -> str:
    """The part of a request with which a scan range cannot be used; empty if there is none."""
    if compression != "NONE":
        return f"CompressionType {compression}"
    if form.get("type") == "DOCUMENT":
        return "JSON DOCUMENT"
    if form.get("quoted_records"):
        return "AllowQuotedRecordDelimiter"
    if form.get("record") == "\r":
        return "RecordDelimiter CR"
    return ""
