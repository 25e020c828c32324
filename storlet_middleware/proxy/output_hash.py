"""The SHA-256 of a run's output, by which a repetition of the run can be compared.

It is computed where all runs of an account are recorded, and of the first :data:`MAX_BYTES` only: a
longer output has none.  That bounds the work of a run to some hundredths of a second, which are
spread over its chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

MAX_BYTES: Final = 16 << 20


class OutputHash:
    """The hash of one output: ``hex`` is empty until its end, and if it is too long."""

    __slots__ = ("hex",)

    def __init__(self) -> None:
        self.hex = ""

    def through(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """``chunks``, which are hashed on their way."""
        digest, size = hashlib.sha256(), 0
        for chunk in chunks:
            size += len(chunk)
            if size <= MAX_BYTES:
                digest.update(chunk)
            yield chunk
        if size <= MAX_BYTES:
            self.hex = digest.hexdigest()
