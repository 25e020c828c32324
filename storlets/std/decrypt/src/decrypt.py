"""Decrypts an object of ``std:encrypt``, chunk by chunk; see there for the format.

A chunk is written after its tag was verified, and each chunk before the last one only after a
further one was found.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

from storlet import secrets

from opening import TAG_BYTES, Opener

MAGIC = b"STORLENC\x01"
SALT_BYTES = 16
ID_BYTES = 8
CHUNK_BYTES = 64 * 1024
PURPOSE = b"std:encrypt key "
ID_PURPOSE = b"std:encrypt id "
ITEM, KEY_ITEM = "Encryption", "Encryption-Key"


class DecryptionError(ValueError):
    """The object is not the one that was encrypted, or the secret is another one."""


class Decrypt:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        secret = secrets.get(params["key"])
        head = read(source, len(MAGIC) + SALT_BYTES + ID_BYTES)
        require_head(head, secret, params["key"])
        opener = Opener(hmac.digest(secret, PURPOSE + head, hashlib.sha256))
        for number, (chunk, is_last) in enumerate(chunks_of(source)):
            data = opener.open(nonce_of(number, is_last), chunk)
            if data is None:
                raise DecryptionError(
                    f"chunk {number} is not the one that was encrypted: the object was changed, cut"
                    " or put together from others"
                )
            if not number:
                # An empty value removes the item.
                target.set_metadata({ITEM: "", KEY_ITEM: ""})
            target.write(data)


def require_head(head: bytes, secret: bytes, name: str) -> None:
    if not head.startswith(MAGIC) or len(head) < len(MAGIC) + SALT_BYTES + ID_BYTES:
        raise DecryptionError("the object does not begin like one of std:encrypt")
    known = hmac.digest(secret, ID_PURPOSE, hashlib.sha256)[:ID_BYTES]
    if not hmac.compare_digest(head[-ID_BYTES:], known):
        raise DecryptionError(f"the object was encrypted with another secret than {name} is now")


def nonce_of(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def chunks_of(source: Any) -> Iterator[tuple[bytes, bool]]:
    """Each encrypted chunk, and whether it is the last one."""
    size = CHUNK_BYTES + TAG_BYTES
    chunk = read(source, size)
    while len(chunk) == size:
        following = read(source, size)
        if not following:
            break
        yield chunk, False
        chunk = following
    yield chunk, True


def read(source: Any, size: int) -> bytes:
    """``size`` bytes; less only at the end of the object."""
    pieces, left = [], size
    while left and (piece := source.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
