"""Decrypts an object of ``std:encrypt``, chunk by chunk; ``envelope`` describes the format.

A chunk is written after its tag was verified, and each chunk before the last one only after a
further one was found.
"""

from __future__ import annotations

import hmac
from typing import Any

from storlet import secrets

import envelope
from aes_gcm import TAG_BYTES, Opener


class DecryptionError(ValueError):
    """The object is not the one that was encrypted, or the secret is another one."""


class Decrypt:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        secret = secrets.get(params["key"])
        head = envelope.read(source, envelope.HEAD_BYTES)
        require_head(head, secret, params["key"])
        opener = Opener(envelope.key_of(secret, head))
        chunks = envelope.chunks_of(source, envelope.CHUNK_BYTES + TAG_BYTES)
        for number, (chunk, is_last) in enumerate(chunks):
            data = opener.open(envelope.nonce_of(number, is_last), chunk)
            if data is None:
                raise DecryptionError(
                    f"chunk {number} is not the one that was encrypted: the object was changed, cut"
                    " or put together from others"
                )
            if not number:
                # An empty value removes the item.
                target.set_metadata({envelope.ITEM: "", envelope.KEY_ITEM: ""})
            target.write(data)


def require_head(head: bytes, secret: bytes, name: str) -> None:
    """Raise :class:`DecryptionError` unless an object begins so that this secret has encrypted."""
    if not head.startswith(envelope.MAGIC) or len(head) < envelope.HEAD_BYTES:
        raise DecryptionError("the object does not begin like one of std:encrypt")
    if not hmac.compare_digest(head[-envelope.ID_BYTES :], envelope.id_of(secret)):
        raise DecryptionError(f"the object was encrypted with another secret than {name} is now")
