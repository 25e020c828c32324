"""The dictionary of attributes and UIDs of the DICOM standard, from the package pydicom."""

from __future__ import annotations

import functools

from packages import loaded

SUBJECT = "std:deidentify-dicom"


class Dictionary:
    """Loads the package.

    :raises packages.PackageError: the image does not have it.
    """

    def __init__(self) -> None:
        package = loaded(SUBJECT, "pydicom")
        self._entries = package.datadict.DicomDictionary
        self._uids = package.uid.UID_dictionary
        self.vrs = functools.lru_cache(maxsize=8192)(self._vrs)

    def _vrs(self, tag: int) -> tuple[str, ...]:
        """The VRs that a tag may have; none for a private or unknown one."""
        entry = self._entries.get(tag)
        # NONE is the VR of delimiters.
        return () if entry is None or entry[0] == "NONE" else tuple(entry[0].split(" or "))

    def is_retired(self, tag: int) -> bool:
        entry = self._entries.get(tag)
        return entry is not None and bool(entry[3])

    def keyword(self, tag: int) -> str:
        """The name of an attribute without spaces, or nothing."""
        entry = self._entries.get(tag)
        return "" if entry is None else entry[4]

    def uid(self, uid: str) -> tuple[str, str]:
        """The name and the kind of a UID of the standard; empty for others."""
        entry = self._uids.get(uid)
        return ("", "") if entry is None else (entry[0], entry[1])
