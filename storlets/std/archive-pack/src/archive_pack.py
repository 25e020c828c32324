"""The objects of a container in one ZIP or TAR, with their data in the order of their names.

The archive is written while the objects are read.  A second listing at its end shows whether they
have changed in the meantime.
"""

from __future__ import annotations

import io
from typing import Any

from pack_formats import FORMATS
from pack_listing import Listing, PackError
from pack_names import MemberNames
from parameters import is_true, shown
from storlet import services

BUFFER_BYTES = 256 * 1024


class ArchivePack:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        if in_files[0].read(1):
            raise PackError("the input is not empty, and would not be in the archive")
        container, prefix = params["container"], params["prefix"]
        if not container or "/" in container:
            raise PackError(f"container: {shown(container)}: want the name of a container")
        listing = Listing(container, prefix)
        names = MemberNames(prefix if params["names"] == "relative" else "")
        form = FORMATS[params["format"]]
        # Before the metadata: without an object there is no output at all.
        entries = listing.entries()
        out_files[0].set_metadata({"Content-Type": form.content_type})
        output = Target(out_files[0])
        with io.BufferedWriter(output, BUFFER_BYTES) as target:
            archive = form(target, is_compressed=is_true(params, "compress"))
            try:
                for entry in entries:
                    member = names.member_of(entry)
                    if member is not None:
                        add(archive, member, entry, container)
                listing.require_unchanged()
            except BaseException:
                # The modules of Python would write the end of the archive when it is forgotten.
                output.is_dropped = True
                raise
            finally:
                archive.end()


def add(archive: Any, member: str, entry: Any, container: str) -> None:
    if member.endswith("/"):
        archive.add_folder(member, entry)
        return
    with services.open(f"/{container}/{entry.name}") as source:
        archive.add(member, entry, source)


class Target(io.RawIOBase):
    """The output as a file that cannot seek.

    :ivar is_dropped: nothing more is written.
    """

    def __init__(self, output: Any) -> None:
        super().__init__()
        self._output = output
        self.is_dropped = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if not self.is_dropped:
            self._output.write(bytes(data))
        return len(data)
