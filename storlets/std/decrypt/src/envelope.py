"""The format of ``std:encrypt``: AES-256-GCM in chunks, with a key that is derived from a secret.

::

    8 bytes     STORLENC
    1 byte      version of the format: 1
    16 bytes    salt, random
    8 bytes     identifies the secret
    chunks      65,536 bytes and a tag of 16 bytes each; the last one may be shorter

The key of an object is an HMAC of the head with the secret, so it changes with each byte of the
head.  The nonce of a chunk is its number, and whether it is the last one.  So a chunk that is
changed, moved, repeated or left out, and a cut between two chunks, do not decrypt.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

MAGIC = b"STORLENC\x01"
SALT_BYTES = 16
ID_BYTES = 8
HEAD_BYTES = len(MAGIC) + SALT_BYTES + ID_BYTES
CHUNK_BYTES = 64 * 1024
PURPOSE = b"std:encrypt key "
ID_PURPOSE = b"std:encrypt id "
ITEM, KEY_ITEM = "Encryption", "Encryption-Key"
METHOD = "AES-256-GCM"


def key_of(secret: bytes, head: bytes) -> bytes:
    """The key of the object with this head."""
    return hmac.digest(secret, PURPOSE + head, hashlib.sha256)


def id_of(secret: bytes) -> bytes:
    """The last bytes of the head."""
    return hmac.digest(secret, ID_PURPOSE, hashlib.sha256)[:ID_BYTES]


def nonce_of(number: int, is_last: bool) -> bytes:
    """The nonce of a chunk."""
    return number.to_bytes(11, "big") + bytes([is_last])


def chunks_of(source: Any, size: int) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last one; an empty object has one empty chunk."""
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
