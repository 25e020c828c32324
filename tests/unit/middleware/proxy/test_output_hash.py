from __future__ import annotations

import hashlib

from storlet_middleware.proxy import output_hash
from storlet_middleware.proxy.output_hash import OutputHash


def test_the_hash_is_known_at_the_end_of_the_output() -> None:
    kept = OutputHash()
    chunks = kept.through(iter([b"ab", b"c"]))
    assert (next(chunks), kept.hex) == (b"ab", "")
    assert list(chunks) == [b"c"]
    assert kept.hex == hashlib.sha256(b"abc").hexdigest()


def test_an_empty_output_has_a_hash_too() -> None:
    kept = OutputHash()
    assert list(kept.through(iter([]))) == []
    assert kept.hex == hashlib.sha256().hexdigest()


def test_a_long_output_passes_without_a_hash() -> None:
    kept, chunk = OutputHash(), bytes(output_hash.MAX_BYTES)
    assert sum(map(len, kept.through(iter([chunk, b"x"])))) == len(chunk) + 1
    assert kept.hex == ""


def test_an_output_that_breaks_off_has_no_hash() -> None:
    kept = OutputHash()
    chunks = kept.through(iter([b"ab", b"c"]))
    next(chunks)
    del chunks
    assert kept.hex == ""
