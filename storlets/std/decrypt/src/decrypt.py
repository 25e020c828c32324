"""Decrypts an object of ``std:encrypt``, chunk by chunk; ``envelope`` describes the format.

A chunk is written after its tag was verified, and each chunk before the last one only after a
further one was found.  A range of the data is written after the last chunk was verified, which
shows that the object has all its chunks.
"""

from __future__ import annotations

import hmac
import os
from typing import Any

from storlet import secrets

import envelope
import output_range
from aes_gcm import TAG_BYTES, Opener
from refusal import Refusal


#: An empty value removes the item.
REMOVED = {envelope.ITEM: "", envelope.KEY_ITEM: ""}


class DecryptionError(Refusal):
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
        if output_range.is_wanted(params):
            write_range(source, target, opener, params)
            return
        chunks = envelope.chunks_of(source, envelope.CHUNK_BYTES + TAG_BYTES)
        for number, (chunk, is_last) in enumerate(chunks):
            data = opened(opener, number, chunk, is_last=is_last)
            if not number:
                target.set_metadata(REMOVED)
            target.write(data)


def write_range(source: Any, target: Any, opener: Opener, params: dict[str, str]) -> None:
    """Write the range of the data that is requested, from the chunks that have bytes of it."""
    sealed = envelope.CHUNK_BYTES + TAG_BYTES
    stored = source.seek(0, os.SEEK_END) - envelope.HEAD_BYTES
    last = max(0, stored - 1) // sealed

    def chunk(number: int) -> bytes:
        source.seek(envelope.HEAD_BYTES + number * sealed)
        return opened(opener, number, envelope.read(source, sealed), is_last=number == last)

    final = chunk(last)
    size = last * envelope.CHUNK_BYTES + len(final)
    first, end = output_range.begin(target, REMOVED, params, size)
    place = first // envelope.CHUNK_BYTES * envelope.CHUNK_BYTES
    while place < end:
        number = place // envelope.CHUNK_BYTES
        data = final if number == last else chunk(number)
        target.write(data[max(0, first - place) : end - place])
        place += envelope.CHUNK_BYTES


def opened(opener: Opener, number: int, chunk: bytes, *, is_last: bool) -> bytes:
    """The data of a chunk; raises :class:`DecryptionError` if it is another one."""
    data = opener.open(envelope.nonce_of(number, is_last), chunk)
    if data is None:
        raise DecryptionError(
            f"chunk {number} is not the one that was encrypted: the object was changed, cut or put"
            " together from others"
        )
    return data


def require_head(head: bytes, secret: bytes, name: str) -> None:
    """Raise :class:`DecryptionError` unless an object begins so that this secret has encrypted."""
    if not head.startswith(envelope.MAGIC) or len(head) < envelope.HEAD_BYTES:
        raise DecryptionError("the object does not begin like one of std:encrypt")
    if not hmac.compare_digest(head[-envelope.ID_BYTES :], envelope.id_of(secret)):
        raise DecryptionError(f"the object was encrypted with another secret than {name} is now")
