"""Combines each byte with a repeated key by exclusive or; the same key gives the object back.

A key of one byte is a translation table.  A longer one is repeated to the length of a block, and
two numbers of this length are combined at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from refusal import Refusal

#: Of one read; the numbers of this length stay in the CPU's cache.
BLOCK_BYTES = 256 * 1024
MOST_KEY_BYTES = 64
KEY = re.compile(r"([0-9a-fA-F]{2})+")


class Xor:
    """A filter for tests: no encryption."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        key = key_of(params["key"])
        combine = combination(key)
        # A read gives fewer bytes only at the end, so each block begins with the key.
        size = max(BLOCK_BYTES // len(key), 1) * len(key)
        target.set_metadata(source.get_metadata())
        while block := source.read(size):
            target.write(combine(block))


def key_of(text: str) -> bytes:
    """The bytes of hexadecimal digits."""
    if not KEY.fullmatch(text) or len(text) > 2 * MOST_KEY_BYTES:
        # The text itself is not shown: it may be secret.
        raise Refusal(f"key: want pairs of hexadecimal digits, 1 to {MOST_KEY_BYTES} bytes")
    return bytes.fromhex(text)


def combination(key: bytes) -> Callable[[bytes], bytes]:
    """The function of a block."""
    if len(key) == 1:
        table = bytes(byte ^ key[0] for byte in range(256))
        return lambda block: block.translate(table)
    whole = key * max(BLOCK_BYTES // len(key), 1)
    number = int.from_bytes(whole, "little")

    def combine(block: bytes) -> bytes:
        size = len(block)
        pad = number if size == len(whole) else int.from_bytes(whole[:size], "little")
        return (int.from_bytes(block, "little") ^ pad).to_bytes(size, "little")

    return combine
