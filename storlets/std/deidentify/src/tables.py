"""Records of CSV and JSON lines, and lines of text: read, and written with other values.

A line that is not UTF-8, CSV or JSON is an error, because its columns are unknown.  No message has
a value.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

from contract import Action, ContractError
from exact_json import DECODER, Number, RepeatedKey
from parameters import shown
from utf8_lines import MOST_RECORD_BYTES, Lines

FLUSH_CHARACTERS = 64 * 1024
DROPPED = object()
#: JSON can have one as an escape sequence.
HALF = re.compile("[\ud800-\udfff]")
#: The one column of a text.
LINE = "line"

#: Line, column, value -> its new value, or DROPPED.
Applied = Callable[[int, str, Any], Any]


def csv_changed(
    source: Any, target: Any, contract: dict[str, Action], delimiter: str, apply: Applied
) -> int:
    """Write the CSV with changed values; the number of its records."""
    csv.field_size_limit(MOST_RECORD_BYTES)
    lines = Lines(source)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    header = next_row(rows)
    if header is None:
        raise ContractError("the object is empty: it has no header")
    require_columns(header, contract)
    kept = [index for index, name in enumerate(header) if contract[name].name != "drop"]
    output = Output(target)
    write = row_writer(output.text, delimiter)
    write([header[index] for index in kept])
    count = 0
    line = rows.line_num + 1
    while (row := next_row(rows)) is not None:
        lines.record = 0
        if row:
            if len(row) != len(header):
                raise ContractError(
                    f"line {line}: has {len(row)} values, and the header {len(header)}"
                )
            values = [apply(line, name, value) for name, value in zip(header, row)]
            write([values[index] for index in kept])
            output.flush_if_long()
            count += 1
        line = rows.line_num + 1
    output.flush()
    return count


def row_writer(text: io.StringIO, delimiter: str) -> Callable[[list[str]], None]:
    """Writes a row; some versions of Python do not quote a carriage return by themselves."""
    usual = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    careful = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def write(row: list[str]) -> None:
        has_return = any("\r" in value for value in row)
        (careful if has_return else usual).writerow(row)

    return write


def next_row(rows: Any) -> list[str] | None:
    try:
        return next(rows, None)
    except csv.Error as error:
        # The texts of this exception have no value.
        raise ContractError(f"line {rows.line_num}: {error}") from None


def require_columns(header: list[str], contract: dict[str, Action]) -> None:
    """Raise unless the header has each column of the contract once, and no other one.

    Names of columns that the contract does not have are not shown: without a header, they are
    values of the first record.
    """
    unknown = [str(place) for place, name in enumerate(header, 1) if name not in contract]
    missing = [shown(name) for name in contract if name not in header]
    twice = [shown(name) for name in contract if header.count(name) > 1]
    faults = [
        f"{text} {', '.join(names[:20])}"
        for text, names in (
            ("columns without an action, by their numbers:", unknown),
            ("columns that the object does not have:", missing),
            ("columns that the object has twice:", twice),
        )
        if names
    ]
    if faults:
        raise ContractError("; ".join(faults))


def json_changed(source: Any, target: Any, contract: dict[str, Action], apply: Applied) -> int:
    """Write the JSON lines with changed values; the number of records."""
    output, count = Output(target), 0
    lines = Lines(source)
    for line, text in enumerate(lines, 1):
        lines.record = 0
        if not text.strip():
            continue
        try:
            record = DECODER.decode(text)
        except RepeatedKey as error:
            raise ContractError(f"line {line}: {error}") from None
        except RecursionError:
            raise _too_deep(line) from None
        except ValueError:
            raise ContractError(f"line {line}: is not JSON") from None
        if not isinstance(record, dict):
            raise ContractError(f"line {line}: is not a JSON object")
        unknown = sum(1 for name in record if name not in contract)
        if unknown:
            raise ContractError(f"line {line}: {unknown} keys have no action")
        changed = {name: apply(line, name, value) for name, value in record.items()}
        members = (
            f"{quoted(name)}: {json_text(value)}"
            for name, value in changed.items()
            if value is not DROPPED
        )
        try:
            output.text.write("{" + ", ".join(members) + "}\n")
        except RecursionError:  # it needs more of the stack than the reading
            raise _too_deep(line) from None
        output.flush_if_long()
        count += 1
    output.flush()
    return count


def _too_deep(line: int) -> ContractError:
    return ContractError(f"line {line}: has too many levels of JSON")


def text_changed(source: Any, target: Any, contract: dict[str, Action], apply: Applied) -> int:
    """Write the text with changed lines; the number of lines.

    Each line is searched as a whole, without its end.
    """
    if list(contract) != [LINE] or contract[LINE].finder is None:
        raise ContractError(
            f'columns: a text has the one column {LINE}: want {{"{LINE}": "find"}} or find-hmac'
        )
    output, count = Output(target), 0
    lines = Lines(source)
    for count, text in enumerate(lines, 1):
        lines.record = 0
        body = text.rstrip("\r\n")
        output.text.write(apply(count, LINE, body) + text[len(body) :])
        output.flush_if_long()
    output.flush()
    return count


def json_text(value: Any) -> str:
    """The JSON of a value whose numbers are as they were written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = (
            f"{quoted(name)}: {json_text(each)}"
            for name, each in value.items()
        )
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return quoted(value)


def quoted(value: Any) -> str:
    """The JSON of a text, a truth value or null; a half of a surrogate pair has no UTF-8."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if HALF.search(text) else text


class Output:
    """Text that is written in pieces."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.text = io.StringIO()

    def flush_if_long(self) -> None:
        if self.text.tell() >= FLUSH_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        self._target.write(self.text.getvalue().encode())
        self.text.seek(0)
        self.text.truncate()
