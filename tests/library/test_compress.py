"""``std:compress``: other tools read its output, and data that do not shrink stay as they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import sys
from collections.abc import Callable

import lz4.frame
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("compress")
READERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress,
    "zstd": zstd.decompress, "lz4": lz4.frame.decompress,
}  # fmt: skip
POLICIES = ("best", "fast")
TEXT = b"a line of text\n" * 1000
NOISE = random.Random(1).randbytes(20_000)  # noqa: S311 - data that do not compress


@given(
    data=st.binary(max_size=200),
    kind=st.sampled_from(list(READERS)),
    policy=st.sampled_from(POLICIES),
    block=st.integers(1, 50),
)
def test_the_readers_of_python_give_the_data(
    data: bytes, kind: str, policy: str, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STORLET.module, "BLOCK_BYTES", block)
        ran = STORLET.run(data, {"format": kind, "policy": policy})
    assert READERS[kind](ran.output) == data
    assert ran.metadata == {"Compression": kind}


@pytest.mark.parametrize("kind", list(READERS))
def test_the_same_data_give_the_same_output(kind: str) -> None:
    given = {"format": kind}
    one, other = STORLET.run(TEXT, given), STORLET.run(TEXT, given)
    assert one.output == other.output
    assert len(one.output) < len(TEXT) / 10


def test_a_better_policy_gives_a_smaller_output() -> None:
    words = random.Random(2)  # noqa: S311 - a text that compresses
    text = b" ".join(words.choice([b"apple", b"pear", b"fig", b"plum"]) for _ in range(20_000))
    best, fast = (STORLET.run(text, {"policy": policy}).output for policy in POLICIES)
    assert len(best) < len(fast)


def test_the_level_is_that_of_the_format() -> None:
    words = random.Random(3)  # noqa: S311 - a text that compresses
    text = b" ".join(words.choice([b"apple", b"pear", b"fig", b"plum"]) for _ in range(20_000))
    given = {"format": "zstd", "level": "3"}
    found = STORLET.run(text, given).output
    assert zstd.decompress(found) == text
    assert found == STORLET.run(text, given | {"policy": "best"}).output
    policies = [STORLET.run(text, {"format": "zstd", "policy": each}).output for each in POLICIES]
    assert found not in policies
    # Of data that do not compress, the policy decides.
    assert STORLET.run(NOISE, given).output == NOISE


@pytest.mark.parametrize(
    ("kind", "level", "bounds"),
    [("gzip", 10, "1 to 9"), ("bz2", 10, "1 to 9"), ("xz", 7, "1 to 6"), ("lz4", 19, "1 to 12")],
)
def test_a_level_that_the_format_does_not_have_is_refused(
    kind: str, level: int, bounds: str
) -> None:
    with pytest.raises(ValueError, match=f"level {level}: {kind} has levels from {bounds}"):
        STORLET.run(b"", {"format": kind, "level": str(level)})


@pytest.mark.parametrize("kind", list(READERS))
@pytest.mark.parametrize("data", [b"", b"short", NOISE])
def test_auto_leaves_data_as_they_are_if_it_does_not_pay(kind: str, data: bytes) -> None:
    ran = STORLET.run(data, {"format": kind})
    assert (ran.output, ran.metadata) == (data, {"Compression": "none"})


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_a_changed_byte_is_seen_by_other_tools(kind: str) -> None:
    output = bytearray(STORLET.run(TEXT, {"format": kind, "policy": "best"}).output)
    output[-5] ^= 1
    with pytest.raises((zstd.ZstdError, RuntimeError)):
        READERS[kind](bytes(output))


@pytest.mark.parametrize(("kind", "package"), [("zstd", "backports.zstd"), ("lz4", "lz4.frame")])
def test_an_image_without_the_package_names_it(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(shared("packages").PackageError, match=f"{kind} needs .* {package}, which"):
        STORLET.run(TEXT, {"format": kind})


def test_an_object_that_is_compressed_is_not_compressed_again() -> None:
    metadata = {"compression": "xz"}
    ran = STORLET.run(TEXT, {"policy": "auto"}, metadata)
    assert (ran.output, ran.metadata) == (TEXT, {"Compression": "xz"})
    with pytest.raises(STORLET.module.CompressionError, match="its Compression is xz"):
        STORLET.run(TEXT, {"policy": "best"}, metadata)
    assert STORLET.run(TEXT, {}, {"Compression": "none"}).metadata == {"Compression": "gzip"}
