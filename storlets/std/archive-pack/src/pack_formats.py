"""The two formats, each written to a file that cannot seek."""

from __future__ import annotations

import datetime
import tarfile
import zipfile
from typing import Any

from pack_listing import PackError
from parameters import shown

BLOCK_BYTES = 256 * 1024
#: Where the listing has no time; the first one that a ZIP can have.
FIRST_TIME = datetime.datetime(1980, 1, 1, tzinfo=datetime.timezone.utc)
LAST_YEAR = 2107
FILE_MODE, FOLDER_MODE = 0o100644, 0o040755
#: The attribute of a folder in the file system of DOS.
DOS_FOLDER = 0x10


def time_of(entry: Any) -> datetime.datetime:
    """The time of an object's last change, which the listing has without a zone."""
    if not entry.last_modified:
        return FIRST_TIME
    time = datetime.datetime.fromisoformat(entry.last_modified)
    return time.replace(tzinfo=datetime.timezone.utc)


class Zip:
    """A ZIP, with the sizes of each member after its data."""

    content_type = "application/zip"

    def __init__(self, target: Any, *, is_compressed: bool) -> None:
        method = zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED
        self._archive = zipfile.ZipFile(target, "w", method)
        self._method = method

    def add_folder(self, name: str, entry: Any) -> None:
        member = self._member(name, entry, FOLDER_MODE)
        member.external_attr |= DOS_FOLDER
        member.compress_type = zipfile.ZIP_STORED
        self._archive.writestr(member, b"")

    def add(self, name: str, entry: Any, source: Any) -> None:
        member = self._member(name, entry, FILE_MODE)
        # zipfile selects ZIP64 by the size, and here it is known before the data, or not at all.
        member.file_size = source.size or 0
        with self._archive.open(member, "w", force_zip64=source.size is None) as packed:
            while block := source.read(BLOCK_BYTES):
                packed.write(block)

    def _member(self, name: str, entry: Any, mode: int) -> zipfile.ZipInfo:
        time = max(time_of(entry), FIRST_TIME)
        time = time.replace(year=min(time.year, LAST_YEAR))
        member = zipfile.ZipInfo(name, time.timetuple()[:6])
        member.compress_type = self._method
        member.external_attr = mode << 16
        return member

    def end(self) -> None:
        self._archive.close()


class Tar:
    """A TAR in the form of POSIX, whose headers have the sizes."""

    content_type = "application/x-tar"

    def __init__(self, target: Any, *, is_compressed: bool) -> None:
        # std:compress makes a TAR smaller; is_compressed is of ZIP.
        self._archive = tarfile.open(
            fileobj=target, mode="w|", format=tarfile.PAX_FORMAT, bufsize=BLOCK_BYTES
        )

    def add_folder(self, name: str, entry: Any) -> None:
        member = self._member(name, entry)
        member.type, member.mode = tarfile.DIRTYPE, FOLDER_MODE & 0o777
        self._add(member, None)

    def add(self, name: str, entry: Any, source: Any) -> None:
        if source.size is None:
            raise PackError(f"object {shown(entry.name)}: its size is not known before its data")
        member = self._member(name, entry)
        member.size, member.mode = source.size, FILE_MODE & 0o777
        self._add(member, source)
        # Only the read of the end verifies that the object has arrived whole.
        if source.read(1):
            raise PackError(f"object {shown(entry.name)}: it has more than {source.size} bytes")

    def _member(self, name: str, entry: Any) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.mtime = int(time_of(entry).timestamp())
        return member

    def _add(self, member: tarfile.TarInfo, source: Any) -> None:
        self._archive.addfile(member, source)
        # tarfile would keep each member for a list of them.
        self._archive.members.clear()

    def end(self) -> None:
        self._archive.close()


FORMATS: dict[str, type[Zip] | type[Tar]] = {"zip": Zip, "tar": Tar}
