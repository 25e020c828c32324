"""Byte ranges as HTTP writes them, and what they are in an object of a known size."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

#: ``(first, last)`` as written: ``(5, None)`` is ``5-``, ``(None, 5)`` is ``-5``.
ByteRange: TypeAlias = tuple[int | None, int | None]

_SPEC: Final = re.compile(r"\s*(\d*)\s*-\s*(\d*)\s*")
#: More digits than any object has bytes.
_MAX_DIGITS: Final = 18


def parse_ranges(value: str) -> tuple[ByteRange, ...]:
    """``bytes=a-b``, ``bytes=a-``, ``bytes=-n`` and lists of them; ``ValueError`` says what is
    wrong.
    """
    unit, equals, specs = value.partition("=")
    if unit.strip() != "bytes" or not equals:
        raise ValueError("want bytes=a-b, bytes=a- or bytes=-n, or several with commas")
    return tuple(_parse_range(spec) for spec in specs.split(","))


def _parse_range(spec: str) -> ByteRange:
    match = _SPEC.fullmatch(spec)
    if not match or not (match[1] or match[2]) or max(len(match[1]), len(match[2])) > _MAX_DIGITS:
        raise ValueError(f"{spec.strip()!r} is not a range: want a-b, a- or -n")
    first = int(match[1]) if match[1] else None
    last = int(match[2]) if match[2] else None
    if first is not None and last is not None and first > last:
        raise ValueError(f"{spec.strip()!r} ends before it begins")
    return first, last


def resolve_range(wanted: ByteRange, size: int) -> tuple[int, int] | None:
    """Inclusive first and last byte of ``wanted`` in ``size`` bytes, clipped; ``None`` when it lies
    outside.
    """
    first, last = wanted
    if first is None:
        first = max(0, size - (last or 0))
        return (first, size - 1) if last and size else None
    if first >= size:
        return None
    return first, size - 1 if last is None else min(last, size - 1)
