"""``std:decompress-part`` gives the slice of the data, or fails."""

from __future__ import annotations

import random
import struct

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

COMPRESS, DECOMPRESS = LibraryStorlet("compress"), LibraryStorlet("decompress")
STORLET = LibraryStorlet("decompress-part")
TABLE, PACKED = shared("seek_table"), shared("packed")
ERRORS = (
    STORLET.module.PartError,
    shared("zstd_frames").FrameError,
    TABLE.SeekTableError,
    PACKED.PackedError,
)
BLOCK = 100
DATA = random.Random(1).randbytes(50) * 21  # noqa: S311  the same each time


def compressed(data: bytes, **parameters: str) -> bytes:
    given_ = {"format": "zstd", "policy": "fast", "seek-table": "true", **parameters}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPRESS.module, "BLOCK_BYTES", BLOCK)
        ran = COMPRESS.run(data, given_)
    assert ran.metadata == {"Compression": "zstd"}
    return ran.output


def part(archive: bytes, first: int = 0, last: int = -1) -> bytes:
    ran = STORLET.run(archive, {"first": str(first), "last": str(last)})
    assert ran.metadata == {"Compression": ""}
    return ran.output


@given(
    data=st.integers(0, 1050).map(lambda size: DATA[:size]),
    first=st.integers(0, 1100),
    last=st.integers(-1, 1100),
)
def test_a_part_is_the_slice_of_the_data(data: bytes, first: int, last: int) -> None:
    archive = compressed(data)
    assert DECOMPRESS.run(archive, {}).output == data
    assert zstd.decompress(archive) == data
    expected = data[first:] if last < 0 else data[first : last + 1]
    if expected or not (first or data):
        assert part(archive, first, last) == expected
    else:
        with pytest.raises(STORLET.module.PartError, match="the part is empty"):
            part(archive, first, last)


def test_a_table_has_an_entry_for_each_frame() -> None:
    archive = compressed(DATA)
    count, flags, magic = struct.unpack("<IBI", archive[-9:])
    assert (count, flags, magic) == (-(-len(DATA) // BLOCK), 0, 0x8F92EAB1)


def test_a_table_with_checksums_is_read() -> None:
    one = zstd.compress(b"a" * 10)
    table = struct.pack("<IIIIIIBI", 0x184D2A5E, 21, len(one), 10, 7, 1, 0x80, 0x8F92EAB1)
    assert part(one + table, 3, 5) == b"aaa"


def test_a_changed_byte_or_a_cut_object_is_an_error_or_is_not_of_the_part() -> None:
    archive = bytearray(compressed(DATA))
    chance = random.Random(2)  # noqa: S311  the same each time
    for _ in range(300):
        place = chance.randrange(len(archive))
        changed = bytearray(archive)
        changed[place] ^= 1 << chance.randrange(8)
        try:
            found = part(bytes(changed), 250, 420)
        except ERRORS:
            continue
        assert found == DATA[250:421], place
    for size in range(0, len(archive), 7):
        with pytest.raises(ERRORS):
            part(bytes(archive[:size]))


def test_a_table_of_another_object_is_an_error() -> None:
    archive, other = compressed(DATA), compressed(DATA[:350])
    table = other[-(8 + 4 * 8 + 9) :]
    with pytest.raises(TABLE.SeekTableError, match="not of this object"):
        part(archive[: -(8 + 11 * 8 + 9)] + table)
    with pytest.raises(TABLE.SeekTableError, match="no seek table"):
        part(zstd.compress(DATA))
    huge = struct.pack("<IBI", 1 << 21, 0, 0x8F92EAB1)
    with pytest.raises(TABLE.SeekTableError, match="2097152 frames"):
        part(archive + huge)


@pytest.mark.parametrize("sizes", [(10, 20), (10, 10, 20), (10, 5, 10), (10, 0)])
def test_frames_of_other_sizes_are_an_error(sizes: tuple[int, ...]) -> None:
    frames = [zstd.compress(DATA[:size]) for size in sizes]
    table = TABLE.encoded([(len(frame), size) for frame, size in zip(frames, sizes, strict=True)])
    with pytest.raises(STORLET.module.PartError, match="do not have one size"):
        part(b"".join(frames) + table)


def test_a_table_with_wrong_sizes_of_data_never_shifts_a_part() -> None:
    archive = compressed(DATA[:350])
    start = len(archive) - (8 + 4 * 8 + 9)
    sizes = [(struct.unpack_from("<I", archive, start + 8 + 8 * n)[0], BLOCK) for n in range(4)]
    sizes[3] = (sizes[3][0], 50)
    assert archive[start:] == TABLE.encoded(sizes)
    chance = random.Random(3)  # noqa: S311  the same each time
    for _ in range(300):
        wrong = [(compressed_, chance.choice([50, 99, 100, 101])) for compressed_, _ in sizes]
        first = chance.randrange(350)
        try:
            found = part(archive[:start] + TABLE.encoded(wrong), first, 349)
        except ERRORS:
            continue
        assert found == DATA[first:350], wrong


def test_a_seek_table_is_of_zstd_only() -> None:
    with pytest.raises(COMPRESS.module.CompressionError, match="seek-table: is of format=zstd"):
        COMPRESS.run(DATA, {"seek-table": "true"})
