"""Encrypts an object in chunks; ``envelope`` describes the format."""

from __future__ import annotations

import os
from typing import Any

from storlet import secrets

import envelope
from aes_gcm import Sealer
from refusal import Refusal

LEAST_SECRET_BYTES = 32


class EncryptionError(Refusal):
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
        item = envelope.ITEM
        if metadata.get(item.lower()):
            raise EncryptionError(f"the object is encrypted already: it has the metadata {item}")
        head = envelope.MAGIC + os.urandom(envelope.SALT_BYTES) + envelope.id_of(secret)
        sealer = Sealer(envelope.key_of(secret, head))
        target.set_metadata({item: envelope.METHOD, envelope.KEY_ITEM: params["key"]})
        target.write(head)
        chunks = envelope.chunks_of(source, envelope.CHUNK_BYTES)
        for number, (chunk, is_last) in enumerate(chunks):
            target.write(sealer.seal(envelope.nonce_of(number, is_last), chunk))
