"""``std:encrypt`` and ``std:decrypt``: an object comes back whole, or nothing of a wrong chunk."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, Ran, shared

ENCRYPT, DECRYPT = LibraryStorlet("encrypt"), LibraryStorlet("decrypt")
KEY, OTHER = bytes(range(32)), bytes(range(1, 41))
HEAD, TAG = 33, 16
#: Small chunks, so that small objects have several.
CHUNK = 64


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared("envelope"), "CHUNK_BYTES", CHUNK)


def encrypted(data: bytes, key: bytes = KEY, **more: str) -> Ran:
    return ENCRYPT.run(data, {"key": "k"}, more, {"k": key})


def decrypted(data: bytes, key: bytes = KEY) -> Ran:
    return DECRYPT.run(data, {"key": "k"}, {}, {"k": key})


def failure(data: bytes, key: bytes = KEY) -> str:
    with pytest.raises(DECRYPT.module.DecryptionError) as caught:
        decrypted(data, key)
    return str(caught.value)


def chunks_of(sealed: bytes) -> list[bytes]:
    body = sealed[HEAD:]
    return [body[at : at + CHUNK + TAG] for at in range(0, len(body), CHUNK + TAG)]


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 1000])
def test_an_object_comes_back_whole(size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    sealed = encrypted(data)
    assert sealed.metadata == {"Encryption": "AES-256-GCM", "Encryption-Key": "k"}
    count = max(1, -(-size // CHUNK))
    assert len(sealed.output) == HEAD + size + TAG * count
    back = decrypted(sealed.output)
    assert back.output == data
    assert back.metadata == {"Encryption": "", "Encryption-Key": ""}


def test_the_format_is_the_documented_one() -> None:
    """Decrypted by another implementation of AES-GCM."""
    data = b"0123456789" * 10
    sealed = encrypted(data).output
    key = hmac.digest(KEY, b"std:encrypt key " + sealed[:HEAD], hashlib.sha256)
    found = b"".join(
        AESGCM(key).decrypt(number.to_bytes(11, "big") + bytes([number == 1]), chunk, None)
        for number, chunk in enumerate(chunks_of(sealed))
    )
    assert found == data
    assert sealed[:9] == b"STORLENC\x01"


def test_two_encryptions_of_an_object_have_nothing_in_common() -> None:
    one, two = (encrypted(bytes(500)).output for _ in range(2))
    assert not set(chunks_of(one)) & set(chunks_of(two))
    assert len(set(chunks_of(one))) == len(chunks_of(one))


@given(at=st.integers(0, 10_000), change=st.integers(1, 255), size=st.integers(0, 300))
def test_a_changed_byte_is_an_error(at: int, change: int, size: int) -> None:
    sealed = bytearray(encrypted(bytes(size)).output)
    sealed[at % len(sealed)] ^= change
    failure(bytes(sealed))


@given(length=st.integers(0, 10_000), size=st.integers(0, 300))
def test_an_object_that_is_cut_is_an_error(length: int, size: int) -> None:
    sealed = encrypted(bytes(size)).output
    failure(sealed[: length % len(sealed)])


def test_chunks_that_are_moved_repeated_left_out_or_of_another_object_are_errors() -> None:
    data = bytes(n % 251 for n in range(5 * CHUNK))
    one, other = encrypted(data).output, encrypted(data).output
    head, chunks = one[:HEAD], chunks_of(one)
    swapped = [chunks[1], chunks[0], *chunks[2:]]
    for wrong in (
        swapped, chunks[:-1], chunks[:2], chunks[1:], [*chunks, chunks[-1]], [chunks[0], *chunks],
        [*chunks[:2], *chunks[3:]], [chunks[0], chunks_of(other)[1], *chunks[2:]], [chunks[-1]],
    ):  # fmt: skip
        assert "is not the one that was encrypted" in failure(head + b"".join(wrong))
    assert "is not the one" in failure(other[:HEAD] + b"".join(chunks))


def test_no_byte_of_a_wrong_chunk_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    data = bytes(n % 251 for n in range(3 * CHUNK))
    sealed = bytearray(encrypted(data).output)
    sealed[HEAD + CHUNK + TAG + 3] ^= 1

    class Target:
        def set_metadata(self, metadata: dict[str, str]) -> None: ...

        def write(self, piece: bytes) -> None:
            written.append(piece)

    class Source:
        def __init__(self) -> None:
            self.rest = bytes(sealed)

        def read(self, size: int) -> bytes:
            # Also pieces that are smaller than requested.
            piece, self.rest = self.rest[: min(size, 7)], self.rest[min(size, 7) :]
            return piece

    monkeypatch.setattr(DECRYPT.module.secrets, "get", {"k": KEY}.get)
    with pytest.raises(DECRYPT.module.DecryptionError, match="chunk 1 is not the one"):
        DECRYPT.module.Decrypt(None)([Source()], [Target()], {"key": "k"})
    assert written == [data[:CHUNK]]


def test_another_secret_is_named() -> None:
    assert failure(encrypted(b"data").output, OTHER) == (
        "the object was encrypted with another secret than k is now"
    )


def test_data_of_another_kind_are_refused_by_name() -> None:
    for data in (b"", b"text", b"STORLENC\x02" + bytes(100), b"STORLENC\x01"):
        assert failure(data) == "the object does not begin like one of std:encrypt"


def test_a_short_secret_and_an_encrypted_object_are_refused() -> None:
    with pytest.raises(ENCRYPT.module.EncryptionError, match="has 31 bytes: a key needs 32"):
        encrypted(b"data", KEY[:31])
    with pytest.raises(ENCRYPT.module.EncryptionError, match="is encrypted already"):
        encrypted(b"data", Encryption="AES-256-GCM")
