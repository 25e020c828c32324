"""Removes the values of secrets from texts and data that describe a run: errors, tracebacks, logs.

A value is found as it is, and in the forms that programs print by default: hexadecimal digits,
base64, and the literals of Python and JSON. This protects an account from an accident of a
storlet's author. A storlet that changes a value in another way before it prints it is not stopped.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterable, Iterator

HIDDEN = "[secret]"
_HIDDEN = HIDDEN.encode()
LEAST_BYTES = 8
"""Shorter forms would be found in texts that have nothing to do with them."""


class Redaction:
    """The removal of ``values``; without any, data stay as they are."""

    def __init__(self, values: Iterable[bytes]) -> None:
        forms = {form for value in values for form in _forms(value)}
        # The longest first: a form may be a part of another.
        self._forms = sorted(forms, key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def data(self, data: bytes) -> bytes:
        """``data`` with a mark in place of each value."""
        for form in self._forms:
            data = data.replace(form, _HIDDEN)
        return data

    def cut_data(self, data: bytes) -> bytes:
        """:meth:`data` of data that were cut: a value at their end may not be complete."""
        data = self.data(data)
        for form in self._forms:
            begin = data.find(form[:LEAST_BYTES], max(0, len(data) - len(form)))
            while begin >= 0:
                if form.startswith(data[begin:]):
                    return data[:begin] + _HIDDEN
                begin = data.find(form[:LEAST_BYTES], begin + 1)
        return data

    def text(self, text: str) -> str:
        """``text`` with a mark in place of each value."""
        if not self._forms:
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def _forms(value: bytes) -> Iterator[bytes]:
    # A value from a file may end with a line feed, which a storlet removes.
    for each in dict.fromkeys((value, value.strip())):
        yield from (form for form in _printed(each) if len(form) >= LEAST_BYTES)


def _printed(value: bytes) -> Iterator[bytes]:
    yield value
    digits = binascii.hexlify(value)
    yield digits
    yield digits.upper()
    letters = binascii.b2a_base64(value, newline=False).rstrip(b"=")
    yield letters
    yield letters.replace(b"+", b"-").replace(b"/", b"_")
    yield repr(value)[2:-1].encode()
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return
    yield repr(text)[1:-1].encode("utf-8", "surrogatepass")
    yield json.dumps(text)[1:-1].encode()
