"""Zeros in place of the bytes of a batch that have no value: behind nulls, and after the last bit.

The engine leaves there what its memory had: values that the query replaced by ``NULL``, of other
rows, or of an earlier run.  Two runs would not give equal bytes either.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

#: Bytes of a value by the format of Arrow's C data interface; those with a variable size have none.
_BYTES = {
    **dict.fromkeys("cC", 1), **dict.fromkeys("sS", 2), **dict.fromkeys("fiI", 4),
    **dict.fromkeys("lLg", 8), "tdD": 4, "tdm": 8, "tts": 4, "ttm": 4, "ttu": 8, "ttn": 8,
}  # fmt: skip
_BITS, _LISTED = "b", "+w:"


class _Array(ctypes.Structure):
    """``ArrowArray`` of Arrow's C data interface."""


_Array._fields_ = (
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
)


@dataclass(frozen=True)
class Zeros:
    """The places of a type that may have no value.

    :ivar size: the bytes of a value, or 0.
    :ivar has_bits: each value is a bit.
    :ivar items: the items that each value has in its child, 1 for a struct; 0 if each has its own
        number of them, and a null none.
    """

    size: int
    has_bits: bool
    items: int
    children: tuple[Zeros, ...]

    @classmethod
    def of(cls, schema: Any) -> Zeros:
        """Those of a schema of ``nanoarrow``."""
        form = schema.format
        size = _BYTES.get(form, 0)
        if form.startswith("d:"):
            bits = form.split(",")[2:]
            size = int(bits[0]) // 8 if bits else 16
        elif form.startswith("ts"):
            size = 8
        items = 1 if form == "+s" else 0
        if form.startswith(_LISTED):
            items = int(form.removeprefix(_LISTED))
        return cls(size, form == _BITS, items, tuple(cls.of(each) for each in schema.children))

    def write(self, batch: Any) -> None:
        """Write them into a batch of ``nanoarrow``, which has no other owner."""
        self._write(_Array.from_address(batch._addr()), None)

    def _write(self, array: _Array, around: int | None) -> None:
        """``around``: the bits of the values that the array around this one has; None: all."""
        if array.offset:
            raise ValueError("a batch of the engine begins within its buffers")
        if not array.length:
            return
        bits = around
        if array.n_buffers and array.buffers[0]:
            bits = _limited(array.buffers[0], array.length, None)
            bits = bits if around is None else bits & around
        if self.has_bits:
            _limited(array.buffers[1], array.length, bits)
        elif self.size and bits is not None and bits != (1 << array.length) - 1:
            _keep(array.buffers[1], array.length * self.size, _mask(bits, array.length, self.size))
        inner = None
        if self.items and bits is not None:
            inner = bits if self.items == 1 else _repeated(bits, array.length, self.items)
        for number, child in enumerate(self.children):
            child._write(array.children[number].contents, inner)


def _limited(place: int, length: int, kept: int | None) -> int:
    """Clear the bits after ``length``, and those that are not of ``kept``; the other ones."""
    size = (length + 7) // 8
    found = int.from_bytes(ctypes.string_at(place, size), "little")
    bits = found & ((1 << length) - 1)
    if kept is not None:
        bits &= kept
    if bits != found:
        ctypes.memmove(place, bits.to_bytes(size, "little"), size)
    return bits


def _keep(place: int, size: int, mask: bytes) -> None:
    """Clear the bytes that have no bit in ``mask``."""
    found = int.from_bytes(ctypes.string_at(place, size), "little")
    kept = found & int.from_bytes(mask[:size], "little")
    if kept != found:
        ctypes.memmove(place, kept.to_bytes(size, "little"), size)


def _mask(bits: int, length: int, size: int) -> bytes:
    """``size`` bytes for each bit."""
    return b"".join(map(_masks(size).__getitem__, bits.to_bytes((length + 7) // 8, "little")))


@functools.cache
def _masks(size: int) -> list[bytes]:
    """The mask for each byte of bits."""
    return [
        b"".join((b"\xff" if byte >> bit & 1 else b"\0") * size for bit in range(8))
        for byte in range(256)
    ]


def _repeated(bits: int, length: int, count: int) -> int:
    """Each bit ``count`` times."""
    each = (1 << count) - 1
    return sum(each << (place * count) for place in range(length) if bits >> place & 1)
