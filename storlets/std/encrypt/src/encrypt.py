"""Encrypts an object: AES-256-GCM in chunks, with a key that is derived from a secret.

The format::

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
import os
from collections.abc import Iterator
from typing import Any

from storlet import secrets

from sealing import Sealer

MAGIC = b"STORLENC\x01"
SALT_BYTES = 16
CHUNK_BYTES = 64 * 1024
LEAST_SECRET_BYTES = 32
PURPOSE = b"std:encrypt key "
ID_PURPOSE = b"std:encrypt id "
ITEM, KEY_ITEM = "Encryption", "Encryption-Key"
METHOD = "AES-256-GCM"


class EncryptionError(ValueError):
    """The object cannot be encrypted."""


class Encrypt:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        secret = secrets.get(params["key"])
        if len(secret) < LEAST_SECRET_BYTES:
            raise EncryptionError(
                f"the secret {params['key']} has {len(secret)} bytes: a key needs"
                f" {LEAST_SECRET_BYTES} random ones: storlet secret set NAME --generate"
            )
        metadata = {name.lower(): value for name, value in source.get_metadata().items()}
        if metadata.get(ITEM.lower()):
            raise EncryptionError(f"the object is encrypted already: it has the metadata {ITEM}")
        head = MAGIC + os.urandom(SALT_BYTES) + id_of(secret)
        sealer = Sealer(hmac.digest(secret, PURPOSE + head, hashlib.sha256))
        target.set_metadata({ITEM: METHOD, KEY_ITEM: params["key"]})
        target.write(head)
        for number, (chunk, is_last) in enumerate(chunks_of(source)):
            target.write(sealer.seal(nonce_of(number, is_last), chunk))


def id_of(secret: bytes) -> bytes:
    return hmac.digest(secret, ID_PURPOSE, hashlib.sha256)[:8]


def nonce_of(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def chunks_of(source: Any) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last one; an empty object has one empty chunk."""
    chunk = read(source)
    while len(chunk) == CHUNK_BYTES:
        following = read(source)
        if not following:
            break
        yield chunk, False
        chunk = following
    yield chunk, True


def read(source: Any) -> bytes:
    """A whole chunk; less only at the end of the object."""
    pieces, left = [], CHUNK_BYTES
    while left and (piece := source.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
