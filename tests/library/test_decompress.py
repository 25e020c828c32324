"""``std:decompress``: all members or an error, and limits for hostile inputs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable

import lz4.frame
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("decompress")
PACKED = shared("packed")
ERRORS = (STORLET.module.DecompressionError, PACKED.PackedError)


def zstd_of(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def lz4_of(data: bytes) -> bytes:
    return bytes(lz4.frame.compress(data, content_checksum=True))


WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zstd": zstd_of, "lz4": lz4_of
}  # fmt: skip
KINDS = st.sampled_from(list(WRITERS))
TEXT = b"a line of text\n" * 100


def failure(data: bytes, metadata: dict[str, str] | None = None, **parameters: str) -> str:
    with pytest.raises(ERRORS) as caught:
        STORLET.run(data, parameters, metadata)
    return str(caught.value)


@given(
    parts=st.lists(st.binary(max_size=100), min_size=1, max_size=4),
    kind=KINDS,
    by=st.sampled_from(["parameter", "metadata", "content"]),
    sizes=st.tuples(st.integers(6, 50), st.integers(1, 50)),
)
def test_the_members_come_one_after_the_other(
    parts: list[bytes], kind: str, by: str, sizes: tuple[int, int]
) -> None:
    data = b"".join(WRITERS[kind](part) for part in parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PACKED, "INPUT_BYTES", sizes[0])
        patch.setattr(STORLET.module, "OUTPUT_BYTES", sizes[1])
        ran = STORLET.run(
            data,
            {"format": kind} if by == "parameter" else {},
            {"Compression": kind.upper()} if by == "metadata" else {},
        )
    assert ran.output == b"".join(parts)
    assert ran.metadata == {"Compression": ""}


@given(part=st.binary(max_size=100), kind=KINDS, data=st.data(), is_second=st.booleans())
def test_an_object_that_is_cut_is_an_error(
    part: bytes, kind: str, data: st.DataObject, is_second: bool
) -> None:
    whole = WRITERS[kind](part)
    length = data.draw(st.integers(1 if is_second else 0, len(whole) - 1))
    text = failure((whole if is_second else b"") + whole[:length], format=kind)
    assert "the object is cut" in text


@given(kind=KINDS, garbage=st.binary(min_size=12, max_size=30))
def test_other_data_after_the_end_are_an_error(kind: str, garbage: bytes) -> None:
    # The second and the third byte of frames that zstd and lz4 skip.
    if garbage[1:3] != b"*M" and not garbage.startswith(
        (b"\x1f", b"B", b"\xfd", b"\0", b"(", b"\4")
    ):
        assert "no valid" in failure(WRITERS[kind](TEXT) + garbage)


@given(count=st.integers(0, 20), is_last=st.booleans(), size=st.integers(6, 50))
def test_zero_bytes_pad_xz_to_a_multiple_of_four(count: int, is_last: bool, size: int) -> None:
    data = lzma.compress(TEXT) + bytes(count) + (b"" if is_last else lzma.compress(b"more"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PACKED, "INPUT_BYTES", size)
        if count % 4:
            assert f"{count} bytes of padding" in failure(data)
        else:
            assert STORLET.run(data, {}).output == TEXT + (b"" if is_last else b"more")


def test_zero_bytes_after_gzip_are_padding_and_after_bz2_an_error() -> None:
    assert STORLET.run(gzip.compress(TEXT) + bytes(5), {}).output == TEXT
    assert (
        STORLET.run(gzip.compress(TEXT) + bytes(3) + gzip.compress(b"x"), {}).output == TEXT + b"x"
    )
    assert "no valid bz2" in failure(bz2.compress(TEXT) + bytes(4))


@given(kind=KINDS, data=st.data())
def test_a_changed_byte_is_never_a_success_with_other_data(kind: str, data: st.DataObject) -> None:
    whole = bytearray(WRITERS[kind](TEXT))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        ran = STORLET.run(bytes(whole), {"format": kind})
    except ERRORS:
        return
    assert ran.output == TEXT  # a field without a meaning, such as gzip's time


@pytest.mark.parametrize("kind", list(WRITERS))
def test_an_output_above_the_ratio_is_an_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PACKED, "FREE_BYTES", 1 << 16)
    bomb = WRITERS[kind](bytes(1 << 22))
    assert "become more than 50 times as many" in failure(bomb, **{"max-ratio": "50"})
    enough = str((1 << 22) // len(bomb) + 1)
    assert len(STORLET.run(bomb, {"max-ratio": enough}).output) == 1 << 22


def test_an_xz_that_needs_much_memory_is_an_error() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    assert "Memory usage limit" in failure(lzma.compress(TEXT, filters=filters))


def test_a_zstd_with_a_large_window_is_an_error() -> None:
    parameter = zstd.CompressionParameter
    for log in (27, 28):
        options = {parameter.compression_level: 1, parameter.window_log: log}
        encoder = zstd.ZstdCompressor(options=options)
        data = encoder.compress(TEXT) + encoder.flush()
        if log == 27:
            assert STORLET.run(data, {}).output == TEXT
        else:
            assert "the object is no valid zstd near byte 0" in failure(data)


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_frames_without_data_are_skipped(kind: str) -> None:
    frame = WRITERS[kind](TEXT)
    skipped = b"\x5a\x2a\x4d\x18" + (100).to_bytes(4, "little") + bytes(100)
    data = frame + skipped + frame + skipped
    assert STORLET.run(data, {}).output == TEXT * 2
    assert STORLET.run(skipped + frame, {"format": kind}).output == TEXT
    assert "the object is cut" in failure(data[:-1])


@pytest.mark.parametrize(("kind", "package"), [("zstd", "backports.zstd"), ("lz4", "lz4.frame")])
def test_an_image_without_the_package_names_it(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(shared("packages").PackageError) as caught:
        STORLET.run(WRITERS["gzip"](TEXT), {"format": kind})
    text = str(caught.value)
    assert text.startswith(f"{kind} needs the Python package {package}, which the sandbox image")
    assert "storlets/sandbox-data" in text


def test_an_object_that_is_not_compressed() -> None:
    text = failure(TEXT)
    assert text == (
        "the object has no Compression in its metadata and begins like none of gzip, bz2, xz, zstd,"
        " lz4"
    )
    assert STORLET.run(TEXT, {"accept-plain": "yes"}).output == TEXT
    assert STORLET.run(TEXT, {}, {"Compression": "none"}).output == TEXT
    assert "its Compression is br" in failure(TEXT, {"Compression": "br"})
    assert "no valid gzip" in failure(TEXT, {"Compression": "gzip"})


def test_many_small_members_take_no_long_time() -> None:
    empty = gzip.compress(b"", mtime=0)
    assert STORLET.run(empty * 20_000, {}).output == b""
