"""Removes the values of secrets from texts and data that describe a run: errors, tracebacks, logs.

A value is found as it is, and in the forms that programs print by default: hexadecimal digits,
base64, the quoting of URLs, numbers with commas, and the literals of Python and JSON. A line of a
value of several lines is found without the others, and the start of a form without its end:
``int(value)`` has 200 characters of a value in its error, and services have 60. This protects an
account from an accident of a storlet's author. A storlet that changes a value in another way before
it prints it is not stopped.
"""

from __future__ import annotations

import binascii
import functools
import json
from collections.abc import Iterable, Iterator

HIDDEN = "[secret]"
_HIDDEN = HIDDEN.encode()
LEAST_BYTES = 8
"""Shorter forms would be found in texts that have nothing to do with them."""
_LEAST_PART_BYTES = 16
"""The same for lines and starts of forms: a value has many of them."""
_UNQUOTED = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~"
"""Bytes that are in a URL as they are."""


class Redaction:
    """The removal of ``values``; without any, data stay as they are."""

    def __init__(self, values: Iterable[bytes]) -> None:
        forms = {form for value in values for form in _forms(value)}
        # The longest first: a form may be a part of another.
        self._forms = sorted(forms, key=len, reverse=True)
        self._begins: dict[bytes, list[bytes]] = {}
        for form in self._forms:
            if len(form) > _LEAST_PART_BYTES:
                self._begins.setdefault(form[:_LEAST_PART_BYTES], []).append(form)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def data(self, data: bytes) -> bytes:
        """``data`` with a mark in place of each value, and of each start of one."""
        for form in self._forms:
            data = data.replace(form, _HIDDEN)
        for begin, forms in self._begins.items():
            data = _without_begins(data, begin, forms)
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


def _without_begins(data: bytes, begin: bytes, forms: Iterable[bytes]) -> bytes:
    """``data`` with a mark in place of the longest common prefix with one of ``forms``.

    :param begin: the first bytes of all ``forms``.
    """
    pieces, position = [], 0
    while (found := data.find(begin, position)) >= 0:
        pieces += [data[position:found], _HIDDEN]
        position = found + max(_common(data[found : found + len(form)], form) for form in forms)
    return b"".join((*pieces, data[position:]))


def _common(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _forms(value: bytes) -> Iterator[bytes]:
    # A value from a file may end with a line feed, which a storlet removes.
    for each in dict.fromkeys((value, value.strip())):
        yield from (form for form in _printed(each) if len(form) >= LEAST_BYTES)
    lines = value.splitlines()
    for line in lines if len(lines) > 1 else ():
        # Without the space at its ends, which some programs remove.
        yield from (form for form in _literals(line.strip()) if len(form) >= _LEAST_PART_BYTES)


def _printed(value: bytes) -> Iterator[bytes]:
    yield from _literals(value)
    digits = binascii.hexlify(value)
    yield digits
    yield digits.upper()
    letters = binascii.b2a_base64(value, newline=False).rstrip(b"=")
    yield letters
    yield letters.replace(b"+", b"-").replace(b"/", b"_")
    yield _quoted(value, b"/")
    yield _quoted(value)
    yield _quoted(value, b" ").replace(b" ", b"+")
    # Lists of numbers, as Python and Java print them.
    yield ", ".join(map(str, value)).encode()
    yield ", ".join(map(str, memoryview(value).cast("b"))).encode()


def _quoted(value: bytes, safe: bytes = b"") -> bytes:
    """``value`` as in a URL; ``safe`` are further bytes that stay.

    As ``quote`` of the library, whose module would be imported when a storlet has failed: perhaps
    of a lack of memory or descriptors.
    """
    return b"".join(map(_quotes(safe).__getitem__, value))


@functools.cache
def _quotes(safe: bytes) -> list[bytes]:
    """The quoted form of each byte."""
    kept = _UNQUOTED + safe
    return [bytes((each,)) if each in kept else b"%%%02X" % each for each in range(256)]


def _literals(value: bytes) -> Iterator[bytes]:
    """``value`` as it is, and as bytes and text in a program."""
    yield value
    yield repr(value)[2:-1].encode()
    for encoding in ("utf-8", "latin-1"):
        try:
            text = value.decode(encoding)
        except UnicodeDecodeError:
            continue
        yield text.encode()
        yield repr(text)[1:-1].encode()
        yield json.dumps(text)[1:-1].encode()
        yield json.dumps(text, ensure_ascii=False)[1:-1].encode()
