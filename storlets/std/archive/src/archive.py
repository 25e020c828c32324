"""The members of a ZIP or TAR: a list of all, or the data of one.

The input is seekable.  Of a ZIP only the directory and the member are read, of a TAR the headers up
to the member.  A compressed TAR is read from its start to the member.
"""

from __future__ import annotations

import copy
import json
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from bounded import BLOCK_BYTES, ArchiveError, Bounded, Forward
from packed import PackedError, Unpacked, kind_of, require_ratio

MOST_MEMBERS = 100_000
#: Starts of a ZIP: a member, and the directory of an empty one.
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
METHODS = {0: "stored", 8: "deflate", 12: "bzip2"}
#: Names for the error; these methods are not supported.
OTHER_METHODS = {
    1: "shrink", 6: "implode", 9: "deflate64", 14: "lzma", 93: "zstd", 95: "xz", 98: "ppmd", 99: "aes",
}  # fmt: skip
IS_ENCRYPTED = 1
#: The record at the end of a ZIP, before the comment.
END_BYTES = 22
TYPES = {
    tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "link",
    tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device", tarfile.FIFOTYPE: "pipe",
}  # fmt: skip
WRONG = (
    zipfile.BadZipFile, tarfile.TarError, EOFError, struct.error, zlib.error, RecursionError,
    NotImplementedError, RuntimeError, UnicodeError, ValueError, OverflowError, IndexError, KeyError,
)  # fmt: skip


class Archive:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        is_list, name = params["do"] == "list", params["member"]
        if is_list and name:
            raise ArchiveError("member: do=list has no member")
        if not is_list and not name:
            raise ArchiveError("member: is missing, as do=take needs one")
        kind = "application/x-ndjson" if is_list else "application/octet-stream"
        try:
            archive = opened(source, int(params["max-ratio"]))
            blocks = listed(archive) if is_list else archive.take(name)
            # The first block before the metadata: a missing member has no output at all.
            first = next(blocks, b"")
            target.set_metadata({"Content-Type": kind})
            target.write(first)
            for block in blocks:
                target.write(block)
        except (ArchiveError, PackedError):
            raise
        except WRONG as error:
            raise ArchiveError(f"the archive is not valid: {error}") from error
        except OSError as error:
            # The bzip2 decoder's error has no number; one with a number is of the input.
            if error.errno is None:
                raise ArchiveError(f"the archive is not valid: {error}") from error
            raise


def opened(source: Any, max_ratio: int) -> Any:
    """The archive; its first bytes say which kind it is."""
    start = source.read(8)
    source.seek(0)
    if start.startswith(ZIP):
        return Zip(source, max_ratio)
    kind = kind_of(start)
    if kind:
        return Tar(Forward(Unpacked(source, kind, max_ratio=max_ratio)), None)
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    return Tar(source, size)


def listed(archive: Any) -> Iterator[bytes]:
    """One JSON object a line for each member."""
    lines: list[bytes] = []
    for number, facts in enumerate(archive.members(), 1):
        if number > MOST_MEMBERS:
            raise ArchiveError(f"it has more than {MOST_MEMBERS} members")
        lines.append(json.dumps(facts).encode() + b"\n")
        if len(lines) == 1000:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines)


class Zip:
    """A ZIP, whose directory is at its end."""

    def __init__(self, source: Any, max_ratio: int) -> None:
        self._max_ratio = max_ratio
        file: Any = Bounded(source)
        self._archive = zipfile.ZipFile(file)
        require_whole_directory(self._archive, file)
        if any("\0" in member.orig_filename for member in self._archive.infolist()):
            # zipfile cuts it there, so the name would be another one.
            raise ArchiveError("a name in the directory has the character NUL")

    def members(self) -> Iterator[dict[str, Any]]:
        for member in self._archive.infolist():
            method = method_of(member)
            yield {
                "name": member.filename,
                "type": "folder" if member.is_dir() else "file",
                "size": member.file_size,
                "packed": member.compress_size,
                "method": method,
                "encrypted": bool(member.flag_bits & IS_ENCRYPTED),
                "crc32": f"{member.CRC:08x}",
            }

    def take(self, name: str) -> Iterator[bytes]:
        found = [member for member in self._archive.infolist() if member.filename == name]
        if len(found) != 1:
            raise ArchiveError(f"{len(found)} members have the name {name!r}")
        (member,) = found
        if member.is_dir():
            raise ArchiveError(f"{name!r} is a folder")
        if member.flag_bits & IS_ENCRYPTED:
            raise ArchiveError(f"{name!r} is encrypted, which is not supported")
        if member.compress_type not in METHODS:
            raise ArchiveError(f"{name!r}: the method {method_of(member)} is not supported")
        require_ratio(member.compress_size, member.file_size, self._max_ratio)
        size = 0
        # One byte more: so the data end where they do, also if the directory has less.
        longer = copy.copy(member)
        longer.file_size += 1
        with self._archive.open(longer) as file:
            while block := file.read(BLOCK_BYTES):
                size += len(block)
                yield block
        if size != member.file_size:
            raise ArchiveError(
                f"{name!r} has {size} bytes, and {member.file_size} by the directory"
            )


def require_whole_directory(archive: zipfile.ZipFile, file: Any) -> None:
    """Compare the directory with the record at its end, whose number of members zipfile does not
    read; it searches both in the last 64 KiB.
    """
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    count, start, comment_bytes, comment, place = end[4], end[6], end[7], end[8], end[9]
    found, begin = len(archive.infolist()), archive.start_dir
    if found != count:
        raise ArchiveError(f"the directory has {found} members, and {count} by its end")
    if begin != start:
        raise ArchiveError(
            f"the directory begins at byte {begin}, and at {start} by its end: it is damaged, or"
            " there is something else before the archive"
        )
    if len(comment) != comment_bytes:
        raise ArchiveError("the object is cut: its comment ends after its end")
    file.seek(place + END_BYTES + comment_bytes)
    require_zeros(file)


def require_zeros(source: Any) -> None:
    """Read to the end, where nothing but padding may be.

    :raises ArchiveError: there is something else, for example a second archive.
    """
    while block := source.read(BLOCK_BYTES):
        if block.count(0) != len(block):
            raise ArchiveError("there are data behind the end of the archive")


def method_of(member: zipfile.ZipInfo) -> str:
    number = member.compress_type
    return METHODS.get(number) or OTHER_METHODS.get(number) or f"number {number}"


class Tar:
    """A TAR: headers, each before the data of its member, and blocks of zero bytes at the end.

    ``size`` is None for the data of a compressed object.
    """

    def __init__(self, source: Any, size: int | None) -> None:
        self._source, self._size = source, size
        self._file = Bounded(source)

    def _headers(self) -> Iterator[tarfile.TarInfo]:
        archive = tarfile.TarFile(fileobj=self._file, mode="r")  # type: ignore[arg-type]
        before = -1
        # The constructor has read the first header.
        member = archive.next()
        while member is not None:
            archive.members.clear()
            if member.size < 0 or archive.offset <= before:
                raise ArchiveError("a header has a wrong size")
            if self._size is not None and archive.offset > self._size:
                raise ArchiveError(f"the object is cut: {member.name!r} ends after its end")
            before = archive.offset
            yield member
            member = archive.next()
        if self._file.last != bytes(tarfile.BLOCKSIZE):
            raise ArchiveError("the object is cut, or no TAR: there is no block at its end")
        # The checksum of compressed data is at their end, too.
        require_zeros(self._source)

    def members(self) -> Iterator[dict[str, Any]]:
        for member in self._headers():
            kind = "file" if member.isreg() else TYPES.get(member.type, "other")
            facts = {"name": member.name, "type": kind, "size": member.size}
            yield facts | ({"target": member.linkname} if member.linkname else {})

    def take(self, name: str) -> Iterator[bytes]:
        for member in self._headers():
            if member.name != name:
                continue
            if not member.isreg() or member.issparse():
                raise ArchiveError(f"{name!r} is no plain file")
            self._source.seek(member.offset_data)
            rest = member.size
            while rest:
                block = self._source.read(min(rest, BLOCK_BYTES))
                if not block:
                    raise ArchiveError(f"the object is cut in {name!r}")
                rest -= len(block)
                yield block
            return
        raise ArchiveError(f"0 members have the name {name!r}")
