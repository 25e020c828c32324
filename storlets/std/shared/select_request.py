"""The query and its options, from the storlet's one parameter.

The parameter is JSON that the S3 API's filter makes.  It has checked all options, so that a fault
here is a fault of the caller that runs the storlet itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

from select_errors import SelectError


@dataclass(frozen=True)
class CsvInput:
    """The dialect of the object.

    :ivar record: the end of a record: LF, CR LF or CR.
    :ivar other_record: some other character that ends a record; ``record`` is LF then.
    """

    header: str = "NONE"
    comment: str = "#"
    quote: str = '"'
    escape: str = '"'
    record: str = "\n"
    delimiter: str = ","
    quoted_records: bool = False
    other_record: str = ""


@dataclass(frozen=True)
class JsonInput:
    """``LINES`` or ``DOCUMENT``."""

    type: str = "LINES"


@dataclass(frozen=True)
class ParquetInput:
    """Parquet, which has no options."""


@dataclass(frozen=True)
class CsvOutput:
    """The dialect of the result."""

    quotes: str = "ASNEEDED"
    quote: str = '"'
    escape: str = '"'
    record: str = "\n"
    delimiter: str = ","


@dataclass(frozen=True)
class JsonOutput:
    """JSON, one value a record."""

    record: str = "\n"


Source: TypeAlias = CsvInput | JsonInput | ParquetInput


@dataclass(frozen=True)
class Request:
    """One query.

    :ivar start: the offset from which records are taken; a stream begins one byte before it.
    :ivar end: the last offset at which a record may begin; ``None``: all.
    """

    expression: str
    source: Source
    target: CsvOutput | JsonOutput
    compression: str = "NONE"
    start: int = 0
    end: int | None = None


_Options = TypeVar("_Options", CsvInput, JsonInput, ParquetInput, CsvOutput, JsonOutput)


def request_of(given: str) -> Request:
    """The request in the parameter.

    :raises SelectError: it is no such JSON.
    """
    try:
        document = json.loads(given)
        source = document["input"]
        target = document["output"]
        return Request(
            expression=str(document["expression"]),
            source=_source(source),
            target=_options(CsvOutput if "quotes" in target else JsonOutput, target),
            compression=str(document.get("compression", "NONE")),
            start=int(document.get("start", 0)),
            end=None if document.get("end") is None else int(document["end"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SelectError(
            "InvalidRequestParameter",
            f"request: want the JSON that the S3 API's filter makes ({type(error).__name__})",
        ) from None


def _source(given: dict[str, Any]) -> Source:
    if "header" in given:
        return _options(CsvInput, given)
    return _options(JsonInput, given) if given else ParquetInput()


def _options(kind: type[_Options], given: dict[str, Any]) -> _Options:
    names = {field.name: field.type for field in fields(kind)}
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(unknown[0])
    return kind(**given)
