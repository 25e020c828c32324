"""Keeps the records of 100 bytes whose flag is set.

The benchmark's client uses the same class on a GET.
"""

from __future__ import annotations

from typing import Any

RECORD_BYTES = 100
FLAG_AT = 10
KEEP, DROP = b"+", b"-"


class Scanner:
    """Receives bytes in pieces of any size, returns the flagged records."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes | memoryview) -> bytes:
        """The flagged records among ``data``, as one string of bytes."""
        block = self._rest + bytes(data)
        self._rest = block[len(block) - len(block) % RECORD_BYTES :]
        flags = block[FLAG_AT : len(block) - len(self._rest) : RECORD_BYTES]
        found = []
        at = flags.find(KEEP)
        while at >= 0:
            found.append(block[at * RECORD_BYTES : (at + 1) * RECORD_BYTES])
            at = flags.find(KEEP, at + 1)
        return b"".join(found)


class OnePercent:
    """The storlet."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        target.set_metadata({})
        scanner = Scanner()
        buffer = bytearray(2600 * RECORD_BYTES)
        view = memoryview(buffer)
        while count := source.readinto(buffer):
            target.write(scanner.feed(view[:count]))
