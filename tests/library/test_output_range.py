"""``std:decompress`` and ``std:decrypt`` give a range of their output, or fail."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Mapping

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.wsgi.byte_ranges import ByteRange, resolve_range
from tests.library.support import LibraryStorlet, Ran, shared

COMPRESS, DECOMPRESS = LibraryStorlet("compress"), LibraryStorlet("decompress")
ENCRYPT, DECRYPT = LibraryStorlet("encrypt"), LibraryStorlet("decrypt")
TABLE, FRAMES, PACKED = shared("seek_table"), shared("zstd_frames"), shared("packed")
ENVELOPE = shared("envelope")
ERRORS = (FRAMES.FrameError, TABLE.SeekTableError, PACKED.PackedError)
SECRETS = {"k": b"x" * 32}
BLOCK = 100
DATA = random.Random(1).randbytes(50) * 21  # noqa: S311  the same each time
HEAD_BYTES, ENTRY_BYTES, FOOT_BYTES = 8, 8, 9
#: All forms of a range: ``a-b``, ``a-`` and ``-n``.
SPANS = st.one_of(
    st.tuples(st.integers(0, 1100), st.integers(0, 1100)).map(lambda ends: tuple(sorted(ends))),
    st.tuples(st.integers(0, 1100), st.none()),
    st.tuples(st.none(), st.integers(0, 1100)),
)


def text_of(span: ByteRange) -> str:
    first, last = ("" if end is None else end for end in span)
    return f"bytes={first}-{last}"


def check(ran: Ran, data: bytes, span: ByteRange, removed: Mapping[str, str]) -> None:
    """Assert that the output is the slice of ``data``, and that the report says so."""
    resolved = resolve_range(span, len(data))
    report = "*" if resolved is None else "{}-{}".format(*resolved)
    assert ran.metadata == {**removed, "Storlet-Range": f"bytes {report}/{len(data)}"}
    first, last = resolved or (0, -1)
    assert ran.output == data[first : last + 1]


def archive_of(data: bytes) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPRESS.module, "BLOCK_BYTES", BLOCK)
        return COMPRESS.run(data, {"format": "zstd", "policy": "fast", "seek-table": "true"}).output


def decompressed(archive: bytes, span: ByteRange, **parameters: str) -> Ran:
    return DECOMPRESS.run(archive, {"storlet_range": text_of(span), **parameters})


ARCHIVE = archive_of(DATA)


@given(data=st.integers(0, 1050).map(lambda size: DATA[:size]), span=SPANS)
def test_a_range_of_zstd_is_the_slice_of_the_data(data: bytes, span: ByteRange) -> None:
    check(decompressed(archive_of(data), span), data, span, {"Compression": ""})


@given(size=st.integers(0, 1050), span=SPANS)
def test_a_range_of_data_that_are_not_compressed_is_their_slice(size: int, span: ByteRange) -> None:
    plain = decompressed(DATA[:size], span, **{"accept-plain": "true"})
    check(plain, DATA[:size], span, {"Compression": ""})
    given_ = {"storlet_range": text_of(span)}
    marked = DECOMPRESS.run(DATA[:size], given_, {"Compression": "none"})
    check(marked, DATA[:size], span, {"Compression": ""})


@given(size=st.integers(0, 1050), span=SPANS)
def test_a_range_of_an_encrypted_object_is_the_slice_of_the_data(
    size: int, span: ByteRange
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ENVELOPE, "CHUNK_BYTES", BLOCK)
        sealed = ENCRYPT.run(DATA[:size], {"key": "k"}, secrets=SECRETS).output
        ran = DECRYPT.run(sealed, {"key": "k", "storlet_range": text_of(span)}, secrets=SECRETS)
    check(ran, DATA[:size], span, {"Encryption": "", "Encryption-Key": ""})


# Names without the bytes: a gzip header has the time, and workers collect at different seconds.
@pytest.mark.parametrize(
    "archive", [gzip.compress(DATA), zstd.compress(DATA)], ids=["gzip", "zstd"]
)
def test_a_format_without_a_table_gives_all_of_the_data(archive: bytes) -> None:
    ran = decompressed(archive, (3, 5))
    assert (ran.output, ran.metadata) == (DATA, {"Compression": ""})


def test_a_changed_object_gives_the_bytes_of_the_range_or_an_error() -> None:
    chance = random.Random(2)  # noqa: S311  the same each time
    for place in range(0, len(ARCHIVE), 3):
        changed = bytearray(ARCHIVE)
        changed[place] ^= 1 << chance.randrange(8)
        try:
            ran = DECOMPRESS.run(
                bytes(changed), {"storlet_range": "bytes=250-420"}, {"Compression": "zstd"}
            )
        except ERRORS:
            continue
        if "Storlet-Range" in ran.metadata:
            assert ran.metadata["Storlet-Range"] == f"bytes 250-420/{len(DATA)}", place
            assert ran.output == DATA[250:421], place
        else:  # not the mark of a table any more
            assert ran.output == DATA, place


def with_table(sizes: list[tuple[int, int]]) -> bytes:
    """The archive with another table."""
    old = HEAD_BYTES + FOOT_BYTES + ENTRY_BYTES * -(-len(DATA) // BLOCK)
    return ARCHIVE[:-old] + TABLE.encoded(sizes)


def sizes() -> list[tuple[int, int]]:
    count = -(-len(DATA) // BLOCK)
    at = len(ARCHIVE) - FOOT_BYTES - ENTRY_BYTES * count
    return [struct.unpack_from("<II", ARCHIVE, at + ENTRY_BYTES * n) for n in range(count)]


def test_tables_that_lie_give_an_error_or_all_of_the_data() -> None:
    known = sizes()
    (first, plain), (second, _), *rest, (last, least) = known
    for table in (
        [*known, (1 << 30, BLOCK)],  # behind the end of the object
        [(first + 5, plain), (second - 5, plain), *rest, (last, least)],
        [*known[:-1], (last, least - 1)],
        [*known[:-1], (last, least + 1)],
        [(size, each + 1) for size, each in known],
        [(size, each - 1) for size, each in known],
        [(first + second, plain), *rest, (last, least)],
        [],
    ):
        try:
            ran = decompressed(with_table(table), (0, 150))
        except ERRORS:
            continue
        assert (ran.output, ran.metadata) == (DATA, {"Compression": ""})
    for table in (
        [(first, plain + 1), *known[1:]],
        [(first, plain - 1), *known[1:]],
        [(first, 0), *known[1:]],
        [(first + second, 2 * plain), *known[2:]],
        [*known[:-1], (last, 0)],
        [*known[:-1], (last, plain + 1)],
        [*known[:-1], (last, 17 << 20)],
    ):
        ran = decompressed(with_table(table), (0, 150))
        assert (ran.output, ran.metadata) == (DATA, {"Compression": ""})


def test_two_objects_in_one_give_all_of_the_data() -> None:
    """The table is that of the second one, as in a large object of two segments."""
    ran = decompressed(ARCHIVE * 2, (0, 150))
    assert (ran.output, ran.metadata) == (DATA * 2, {"Compression": ""})


def test_a_table_of_too_much_data_is_an_error_before_anything_is_decompressed() -> None:
    (first, _), *rest = sizes()
    with pytest.raises(PACKED.PackedError, match="max-ratio"):
        decompressed(with_table([(first, 0xFFFFFFFF), *rest]), (0, 0))


def test_an_encrypted_object_that_was_cut_or_changed_gives_no_range() -> None:
    wrong = DECRYPT.module.DecryptionError
    parameters = {"key": "k", "storlet_range": "bytes=0-9"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ENVELOPE, "CHUNK_BYTES", BLOCK)
        sealed = ENCRYPT.run(DATA, {"key": "k"}, secrets=SECRETS).output
        chunk, head = BLOCK + 16, ENVELOPE.HEAD_BYTES
        swapped = sealed[:head] + sealed[head + chunk : head + 2 * chunk] + sealed[head:]
        for changed in (
            sealed[: head + 3 * chunk],  # cut between two chunks
            sealed[:-1],
            sealed[:head],
            sealed + b"x",
            swapped,
            sealed[:head] + bytes([sealed[head] ^ 1]) + sealed[head + 1 :],
        ):
            with pytest.raises(wrong):
                DECRYPT.run(changed, parameters, secrets=SECRETS)
