"""The search for a few bytes in a block, with ``strstr`` of the C library.

That of the GNU C library compares 16 to 64 bytes of the block at once, and is 4 to 20 times as fast
as ``bytes.find``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

#: The time of ``strstr`` may grow with the length of what is wanted; that of ``bytes.find`` does
#: not.
MOST_BYTES = 32
_ZERO = b"\0"


def _strstr() -> Callable[[int, bytes], int | None] | None:
    """The function of the C library, from an address to an address."""
    try:
        found = ctypes.CDLL(None).strstr
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_void_p
    found.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    typed: Callable[[int, bytes], int | None] = found
    return typed


_FIND = _strstr()


class Search:
    """The places of ``wanted``, which is not empty, in a block."""

    def __init__(self, block: bytes, wanted: bytes) -> None:
        self._block = block
        self._wanted = wanted
        self._address = 0
        # A zero ends a text of C; the interpreter has one after the block.  It searches fast itself
        # for a single byte.
        is_usual = 1 < len(wanted) <= MOST_BYTES and _ZERO not in wanted
        if _FIND is not None and is_usual and _ZERO not in block:
            self._address = ctypes.cast(block, ctypes.c_void_p).value or 0

    def after(self, start: int) -> int:
        """The first place from ``start`` on, which is at most the length of the block; or -1."""
        address = self._address
        if not address or _FIND is None:
            return self._block.find(self._wanted, start)
        found = _FIND(address + start, self._wanted)
        return found - address if found else -1
