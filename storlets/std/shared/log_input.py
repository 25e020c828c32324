"""Lines of the log of a web server or of syslog as CSV, which the engine reads with types.

====================  ==============================================================================
format                lines
====================  ==============================================================================
``apache``            the formats ``common`` and ``combined`` of Apache's httpd, also of nginx
``syslog``            RFC 5424, or RFC 3164 with or without the priority in front
====================  ==============================================================================

A line of another form is an error with its number.  ``-`` is ``NULL``.  A value has the text of the
line, also escapes such as ``\\x22``.  The time of RFC 3164 has neither year nor zone, so it is a
text in the column ``stamp``, and ``time`` is ``NULL``.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import csv_table
from parameters import shown
from sql_check import SqlError
from sql_types import ZONED

#: Bound of a line.  A row has a request twice, and a quote in it twice.
MOST_BYTES = 256 << 10
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
APACHE = (
    ("host", "VARCHAR"), ("ident", "VARCHAR"), ("user", "VARCHAR"), ("time", ZONED),
    ("request", "VARCHAR"), ("method", "VARCHAR"), ("path", "VARCHAR"), ("protocol", "VARCHAR"),
    ("status", "SMALLINT"), ("bytes", "BIGINT"), ("referer", "VARCHAR"), ("agent", "VARCHAR"),
)  # fmt: skip
SYSLOG = (
    ("facility", "UTINYINT"), ("severity", "UTINYINT"), ("stamp", "VARCHAR"), ("time", ZONED),
    ("host", "VARCHAR"), ("app", "VARCHAR"), ("process", "VARCHAR"), ("message_id", "VARCHAR"),
    ("data", "VARCHAR"), ("message", "VARCHAR"),
)  # fmt: skip
MOST_PRIORITY = 191
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_HOURS = "[+-](?:[01][0-9]|2[0-3])"
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_APACHE = re.compile(
    rf"(\S+) (\S+) (\S+) \[([0-9]{{2}}/[A-Z][a-z]{{2}}/[0-9]{{4}}):({_CLOCK}) ({_HOURS}[0-5][0-9])\] {_TEXT}"
    rf" ([0-9]{{3}}|-) ([0-9]{{1,18}}|-)(?: {_TEXT} {_TEXT})?"
)
_REQUEST = re.compile(r"([A-Z]+) (\S+) (\S+)")
_NAME = r'[^ =\]"]{1,32}'
_ELEMENT = rf'\[{_NAME}(?: {_NAME}="(?:[^"\\\]]|\\.)*")*\]'
_STAMP = rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})T{_CLOCK}(?:\.[0-9]{{1,6}})?(?:Z|{_HOURS}:[0-5][0-9])"
_RFC_5424 = re.compile(
    rf"<([0-9]{{1,3}})>1 (-|{_STAMP})"
    rf" (\S{{1,255}}) (\S{{1,48}}) (\S{{1,128}}) (\S{{1,32}}) (-|(?:{_ELEMENT})+)(?: (.*))?"
)
_RFC_3164 = re.compile(
    rf"(?:<([0-9]{{1,3}})>)?((?:{'|'.join(MONTHS)}) [ 0-3][0-9] {_CLOCK}) (\S+)"
    r" (?:([^\s:\[\]]{1,48})(?:\[([^\]]*)\])?: ?)?(.*)"
)
Values = list[str | None]


class LogLines:
    """A file of CSV with a row for each line of a log; empty lines have none.

    :ivar columns: names and types in SQL.
    :ivar head: the first line.
    """

    def __init__(self, source: Any, form: str) -> None:
        """:param form: ``apache`` or ``syslog``."""
        self.columns, self._parse, self._wanted = _FORMS[form]
        self.head = csv_table.head_of(self.columns)
        self._source = source
        self._rest = b""
        self._number = 0

    def read(self, size: int) -> bytes:
        """The rows of some lines, and none only at the end.

        :raises SqlError: a line has another form.
        """
        while True:
            data = bytes(self._source.read(size))
            if not data and not self._rest:
                return b""
            lines = (self._rest + (data or b"\n")).split(b"\n")
            self._rest = lines.pop()
            rows = [row for row in map(self._row, lines) if row]
            if len(self._rest) > MOST_BYTES:
                raise SqlError(f"line {self._number + 1}: has more than {MOST_BYTES} bytes")
            if rows:
                return "".join(rows).encode()

    def _row(self, line: bytes) -> str:
        self._number += 1
        line = line.removesuffix(b"\r")
        if not line:
            return ""
        if len(line) > MOST_BYTES:
            raise SqlError(f"line {self._number}: has more than {MOST_BYTES} bytes")
        try:
            text = line.decode()
            if "\0" in text:
                raise ValueError("a NUL")
            values = self._parse(text)
        except UnicodeDecodeError:
            raise SqlError(f"line {self._number}: is no UTF-8") from None
        except ValueError as error:
            raise SqlError(
                f"line {self._number}: {error} in {self._wanted}: {shown(text)}"
            ) from None
        if values is None:
            raise SqlError(f"line {self._number}: want {self._wanted}: {shown(text)}")
        return ",".join("" if each is None else csv_table.quoted(each) for each in values) + "\n"


def apache(line: str) -> Values | None:
    """The values of a line, or ``None`` if it has another form."""
    found = _APACHE.fullmatch(line)
    if found is None:
        return None
    host, ident, user, day, clock, zone, request, status, size, referer, agent = found.groups()
    # A request that is no HTTP, such as a TLS handshake, has no parts.
    parts = _REQUEST.fullmatch(request)
    method, path, protocol = parts.groups() if parts else (None, None, None)
    return [
        host, _or_null(ident), _or_null(user), f"{_day(day)} {clock}{zone[:3]}:{zone[-2:]}",
        _or_null(request), method, path, protocol, _or_null(status), _or_null(size),
        _or_null(referer), _or_null(agent),
    ]  # fmt: skip


def syslog(line: str) -> Values | None:
    """The values of a line, or ``None`` if it has another form."""
    found = _RFC_5424.fullmatch(line)
    if found is not None:
        priority, stamp, day, host, app, process, message_id, data, message = found.groups()
        if day:
            datetime.date.fromisoformat(day)
        message = message.removeprefix("\ufeff") if message is not None else None
        return [
            *_priority(priority), _or_null(stamp), _or_null(stamp), _or_null(host), _or_null(app),
            _or_null(process), _or_null(message_id), _or_null(data), message,
        ]  # fmt: skip
    found = _RFC_3164.fullmatch(line)
    if found is None:
        return None
    priority, stamp, host, app, process, message = found.groups()
    return [*_priority(priority), stamp, None, host, app, process, None, None, message]


def _priority(text: str | None) -> Values:
    """The facility and the severity."""
    if text is None:
        return [None, None]
    value = int(text)
    if value > MOST_PRIORITY:
        raise ValueError(f"the priority {value}")
    return [str(value >> 3), str(value & 7)]


@functools.lru_cache(maxsize=64)
def _day(text: str) -> str:
    """The date of ``10/Oct/2000``."""
    day, month, year = text.split("/")
    if month not in MONTHS:
        raise ValueError(f"the month {month}")
    return datetime.date(int(year), MONTHS.index(month) + 1, int(day)).isoformat()


def _or_null(text: str | None) -> str | None:
    return None if text == "-" else text


_Form = tuple[Sequence[tuple[str, str]], Callable[[str], Values | None], str]
_FORMS: dict[str, _Form] = {
    "apache": (APACHE, apache, "a line of the common or combined log format"),
    "syslog": (SYSLOG, syslog, "a line of RFC 5424 or RFC 3164"),
}
