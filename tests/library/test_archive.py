"""``std:archive`` lists and takes what ``zipfile`` and ``tarfile`` have packed, or fails."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import random
import struct
import tarfile
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("archive")
PACKED = shared("packed")
ERRORS = (STORLET.module.ArchiveError, PACKED.PackedError)
Members = dict[str, bytes]
NAMES = st.text("ab/שx.", min_size=1, max_size=150).filter(lambda name: name == name.strip("/"))
MEMBERS = st.dictionaries(NAMES, st.binary(max_size=2000), min_size=1, max_size=4)
SAMPLE: Members = {
    "first": b"hello", "folder/" + "x" * 150: random.Random(1).randbytes(3000),  # noqa: S311
    "שלום": b"", "last": b"z" * 50_000,
}  # fmt: skip


def zipped(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(members: Members, form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


FORMS: dict[str, Callable[[Members], bytes]] = {
    "zip": zipped,
    "stored": lambda members: zipped(members, zipfile.ZIP_STORED),
    "bzip2": lambda members: zipped(members, zipfile.ZIP_BZIP2),
    "pax": tarred,
    "gnu": lambda members: tarred(members, tarfile.GNU_FORMAT),
    "gzip": lambda members: gzip.compress(tarred(members)),
    "bz2": lambda members: bz2.compress(tarred(members)),
    "xz": lambda members: lzma.compress(tarred(members)),
}


def output(data: bytes, member: str = "", **parameters: str) -> bytes:
    given = {"do": "take", "member": member} if member else {}
    return STORLET.run(data, given | parameters).output


def listed(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output(data).splitlines()]


def failure(data: bytes, member: str = "", **parameters: str) -> str:
    with pytest.raises(ERRORS) as caught:
        output(data, member, **parameters)
    return str(caught.value)


@pytest.mark.parametrize("form", FORMS)
@given(members=MEMBERS)
def test_members(form: str, members: Members) -> None:
    data = FORMS[form](members)
    found = {facts["name"]: facts["size"] for facts in listed(data)}
    assert found == {name: len(content) for name, content in members.items()}
    for name, content in members.items():
        assert output(data, name) == content
    assert failure(data, "absent") == "0 members have the name 'absent'"


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_is_cut_is_never_a_short_success(form: str) -> None:
    data = FORMS[form](SAMPLE)
    # The zero bytes at the end of a TAR are padding after its first block of them.
    end = len(data.rstrip(b"\0")) // 512 * 512 + 512 if form in ("pax", "gnu") else len(data)
    for size in [*range(0, end, max(1, end // 100)), end - 1]:
        failure(data[:size])
        with contextlib.suppress(*ERRORS):
            assert output(data[:size], "last") == SAMPLE["last"]


@pytest.mark.parametrize("form", FORMS)
def test_changed_bytes_are_an_error_of_the_archive_or_none(form: str) -> None:
    data, chance = FORMS[form](SAMPLE), random.Random(2)  # noqa: S311
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(chance.choice([600, len(data)]))] = chance.randrange(256)
        for member in ("", "last"):
            with contextlib.suppress(*ERRORS):
                output(bytes(changed), member)


def patched(data: bytes, place: int, value: bytes) -> bytes:
    """A ZIP with a field of its only member changed in both of its headers."""
    central = data.index(b"PK\x01\x02")
    changed = bytearray(data)
    changed[place : place + len(value)] = value
    changed[central + place + 2 : central + place + 2 + len(value)] = value
    return bytes(changed)


def test_members_that_are_refused_by_name() -> None:
    data = zipped({"a": b"text"})
    encrypted = patched(data, 6, b"\1\0")
    assert listed(encrypted)[0]["encrypted"] is True
    assert failure(encrypted, "a") == "'a' is encrypted, which is not supported"
    for number, name in ((93, "zstd"), (14, "lzma"), (99, "aes"), (77, "number 77")):
        other = patched(data, 8, bytes([number, 0]))
        assert listed(other)[0]["method"] == name
        assert failure(other, "a") == f"'a': the method {name} is not supported"
    assert failure(zipped({"a/": b""}), "a/") == "'a/' is a folder"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (facts,) = listed(file.getvalue())
    assert facts == {"name": "link", "type": "symlink", "size": 0, "target": "/etc/passwd"}
    assert failure(file.getvalue(), "link") == "'link' is no plain file"


def test_a_name_with_the_character_nul() -> None:
    data = zipped({"a_b": b"text"}).replace(b"a_b", b"a\0b")
    for member in ("", "a", "a\0b"):
        assert failure(data, member) == "a name in the directory has the character NUL"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_directory_with_a_smaller_size_and_its_checksum(method: int) -> None:
    data = bytearray(zipped({"a": b"hello"}, method))
    central = data.index(b"PK\x01\x02")
    data[central + 16 : central + 20] = zlib.crc32(b"hel").to_bytes(4, "little")
    data[central + 24 : central + 28] = (3).to_bytes(4, "little")
    assert failure(bytes(data), "a") == "the archive is not valid: Bad CRC-32 for file 'a'"


def zip_with_end(data: bytes, count: int, size: int, start: int) -> bytes:
    """A ZIP whose last record has other numbers of members, bytes and place of the directory."""
    end = data.rindex(b"PK\5\6")
    return data[: end + 8] + struct.pack("<HHLL", count, count, size, start) + data[end + 20 :]


def test_a_directory_of_which_a_part_is_left_out() -> None:
    data = zipped({"a": b"1", "b": b"22", "c": b"333"})
    end, start = data.rindex(b"PK\5\6"), data.index(b"PK\1\2")
    size = end - start
    each = size // 3
    assert zip_with_end(data, 3, size, start) == data
    for count, place in ((3, start), (3, start + each)):
        changed = zip_with_end(data, count, size - each, place)
        assert failure(changed) == "the directory has 2 members, and 3 by its end"
        assert "has 2 members" in failure(changed, "b")
    assert "has 3 members, and 2" in failure(zip_with_end(data, 2, size, start))
    assert f"at {start} by its end" in failure(zip_with_end(data, 2, size - each, start))


@pytest.mark.parametrize("form", FORMS)
def test_a_second_archive_is_not_left_out(form: str) -> None:
    first, second = FORMS[form]({"a": b"1" * 600}), FORMS[form]({"b": b"2"})
    for data in (first + second, first + b"data", first + second[:-30]):
        failure(data)
        failure(data, "b")
    # Padding, as tapes have it.
    if form not in ("bz2", "xz"):
        assert listed(first + bytes(5000)) == listed(first)
    assert output(first, "a") == b"1" * 600


def test_a_tar_that_continues_behind_one_block_of_zeros() -> None:
    first, second = (tarred({name: b"1"}, tarfile.USTAR_FORMAT) for name in "ab")
    assert "behind the end" in failure(first[:1536] + second)
    assert "behind the end" in failure(gzip.compress(first[:1536] + second))


def test_a_comment_that_is_cut() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"1")
        archive.comment = b"some words"
    assert output(file.getvalue(), "a") == b"1"
    assert failure(file.getvalue()[:-3]) == "the object is cut: its comment ends after its end"
    assert "behind the end" in failure(file.getvalue() + b"more")


def test_a_directory_in_zip64() -> None:
    data = zipped({str(number): b"" for number in range(1 << 16)}, zipfile.ZIP_STORED)
    assert len(listed(data)) == 1 << 16
    assert output(data, "65535") == b""
    end = data.rindex(b"PK\6\6")
    changed = data[: end + 32] + struct.pack("<Q", 1 << 17) + data[end + 40 :]
    assert failure(changed) == "the directory has 65536 members, and 131072 by its end"


def test_two_members_with_the_name() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    assert failure(file.getvalue(), "a") == "2 members have the name 'a'"


@pytest.mark.parametrize("form", ["zip", "gzip", "bz2", "xz"])
def test_bombs(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PACKED, "FREE_BYTES", 1000)
    data = FORMS[form]({"a": bytes(1 << 24)})
    assert "max-ratio" in failure(data, "a", **{"max-ratio": "10"})
    tracemalloc.start()
    try:
        failure(data, "a", **{"max-ratio": "10"})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The decoder of xz needs 8 MiB, one read of a ZIP up to 4 MiB.
    assert most < 12 << 20


def with_size(size: bytes, kind: bytes = b"0") -> bytes:
    """A TAR whose first header has another size or type, and the right checksum."""
    data = bytearray(tarred({"a": b"text"}, tarfile.USTAR_FORMAT))
    data[124:136], data[156:157] = size, kind
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


@pytest.mark.parametrize("kind", [b"0", b"x", b"g", b"L", b"S"])
@pytest.mark.parametrize(
    "size", [b"\xff" * 10 + b"\xfe\x00", b"\x80" + b"\x7f" * 11, b"77777777777\0"]
)
def test_headers_that_lie(size: bytes, kind: bytes) -> None:
    for data in (with_size(size, kind), gzip.compress(with_size(size, kind))):
        failure(data)
        failure(data, "b")


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {str(number): b"" for number in range(60)}
    monkeypatch.setattr(STORLET.module, "MOST_MEMBERS", 50)
    assert failure(zipped(many)) == failure(tarred(many)) == "it has more than 50 members"
    monkeypatch.setitem(STORLET.module.Bounded.read.__globals__, "MOST_READ_BYTES", 2000)
    assert "has more than 2000 bytes" in failure(zipped(many))
    assert "has more than 2000 bytes" in failure(tarred({"x" * 3000: b""}))


def test_wrong_parameters_and_other_objects() -> None:
    data = zipped({"a": b""})
    assert "do=list has no member" in failure(data, do="list", member="a")
    assert "do=take needs one" in failure(data, do="take")
    assert "the archive is not valid" in failure(b"")
    assert "the archive is not valid" in failure(b"no archive" * 200)
