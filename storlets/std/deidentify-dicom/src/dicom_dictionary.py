"""The dictionary of attributes and UIDs of the DICOM standard, from the package pydicom."""

from __future__ import annotations

import functools

from packages import loaded

SUBJECT = "std:deidentify-dicom"
#: VRs of numbers, each with its bytes.
NUMBER_BYTES = {
    "AT": 4, "FD": 8, "FL": 4, "SL": 4, "SS": 2, "SV": 8, "UL": 4, "US": 2, "UV": 8,
}  # fmt: skip


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

    def multiplicity(self, tag: int) -> str:
        """The number of values that an attribute may have, such as 1, 1-3, 3-3n or 1-n."""
        return str(self._entries[tag][1])

    def keyword(self, tag: int) -> str:
        """The name of an attribute without spaces, or nothing."""
        entry = self._entries.get(tag)
        return "" if entry is None else entry[4]

    def uid(self, uid: str) -> tuple[str, str]:
        """The name and the kind of a UID of the standard; empty for others."""
        entry = self._uids.get(uid)
        return ("", "") if entry is None else (entry[0], entry[1])


def allows(multiplicity: str, count: int) -> bool:
    """Whether an attribute with this multiplicity may have ``count`` values."""
    least, _, most = multiplicity.partition("-")
    if not most.endswith("n"):
        return int(least) <= count <= int(most or least)
    return count >= int(least) and count % int(most[:-1] or 1) == 0
