"""Names of members, which every program can unpack below one folder."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from pack_listing import PackError
from parameters import shown

DRIVE = re.compile(r"[A-Za-z]:")
BAD_PARTS = {"": "//", ".": "'.'", "..": "'..'"}


class MemberNames:
    """The names of members, none of which is a file and a folder.

    :param prefix: the start of each object's name, which its member does not have.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._files: set[str] = set()

    def member_of(self, entry: Any) -> str | None:
        """The name of the member; one that ends with ``/`` is a folder.

        ``None``: the object is the folder of the whole archive, and needs no member.

        :raises PackError: the name is not possible.
        """
        name = entry.name[len(self._prefix) :]
        is_folder = entry.name.endswith("/") and not entry.size
        if is_folder and not name:
            return None
        plain = name[:-1] if is_folder else name
        fault = fault_of(plain)
        if fault:
            raise PackError(f"object {shown(entry.name)}: as the name of a member it has {fault}")
        # The list is in order, so a file comes before the objects below its name.
        parts = plain.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts) + is_folder))
        clash = next((each for each in above if each in self._files), None)
        if clash is not None:
            raise PackError(f"{shown(clash)} would be a file and a folder of the archive")
        if not is_folder:
            self._files.add(plain)
        return name


def fault_of(name: str) -> str:
    """The part of a name that is unsafe to unpack, in words; empty if the name is safe."""
    if not name:
        return "no character"
    if "\\" in name:
        return "a backslash"
    if any(unicodedata.category(char) == "Cc" for char in name):
        return "a control character"
    if DRIVE.match(name):
        return "a drive"
    return next((BAD_PARTS[part] for part in name.split("/") if part in BAD_PARTS), "")
