"""Records of 100 bytes, of which it keeps those that carry a mark.  The benchmark's client uses the same class on a GET."""

from __future__ import annotations

from typing import Any

RECORD_BYTES = 100
MARK = b"|keep|"


class Scanner:
    """Takes bytes in pieces of any size, gives the marked records."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes | memoryview) -> bytes:
        """The marked records among ``data``, as one string of bytes."""
        if self._rest:
            data = self._rest + bytes(data)
        end = len(data) - len(data) % RECORD_BYTES
        self._rest = bytes(data[end:])
        block = bytes(data[:end])
        found = []
        at = block.find(MARK)
        while at >= 0:
            begin = at - at % RECORD_BYTES
            found.append(block[begin : begin + RECORD_BYTES])
            at = block.find(MARK, begin + RECORD_BYTES)
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
