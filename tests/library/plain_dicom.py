"""A slow reference for ``std:deidentify-dicom``: pydicom's data sets, and the table of a package.

The table is that of dicom-anonymizer.  Nothing here is shared with the storlet.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.metadata
import importlib.util
import io
from typing import Any

import pydicom
from pydicom.datadict import (
    dictionary_has_tag,
    dictionary_is_retired,
    dictionary_VR,
    tag_for_keyword,
)
from pydicom.dataset import Dataset
from pydicom.uid import UID_dictionary

DATABASE = "dicomanonymizer/dicom_anonymization_databases/dicomfields_2026c.py"
LISTS = {
    "D": "D_TAGS",
    "Z": "Z_TAGS",
    "X": "X_TAGS",
    "U": "U_TAGS",
    "Z/D": "Z_D_TAGS",
    "X/Z": "X_Z_TAGS",
    "X/D": "X_D_TAGS",
    "X/Z/D": "X_Z_D_TAGS",
    "X/Z/U*": "X_Z_U_STAR_TAGS",
}
OWN = (0x00120062, 0x00120063, 0x00120064, 0x00280303)
UNLISTED = ("LT", "ST", "UT", "UR", "PN", "AE", "DA", "DT", "TM")
#: Short texts of persons that the table does not list, and the values of before.
IDENTIFYING = {
    tag_for_keyword(name)
    for name in (
        *("PatientBirthDateInAlternativeCalendar", "PatientDeathDateInAlternativeCalendar"),
        *("BreedRegistrationNumber", "NTPSourceAddress", "ContactDisplayName", "OwnerID"),
        *("BoardingPassID", "ItineraryID", "EncryptedAttributesSequence"),
    )
}
#: Marks a value that is not empty, and not the value of the object.
DUMMY = "dummy"


def package_table() -> dict[int, str]:
    """The actions of the package by tags; it has repeating groups, too, which are left out."""
    # An import of the package would need others.
    place = importlib.metadata.distribution("dicom-anonymizer").locate_file(DATABASE)
    spec = importlib.util.spec_from_file_location("dicomfields", str(place))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        tag[0] << 16 | tag[1]: action
        for action, name in LISTS.items()
        for tag in getattr(module, name)
        if len(tag) == 2
    }


TABLE = package_table()


def read(data: bytes) -> Dataset:
    return pydicom.dcmread(io.BytesIO(data))


def plain(dataset: Dataset, *, is_top: bool = True) -> dict[int, Any]:
    """The values by tags, without those that the storlet adds; a sequence is a list of such
    dictionaries.
    """
    return {
        int(element.tag): (
            [plain(item, is_top=False) for item in element.value]
            if element.VR == "SQ"
            else shape(element)
        )
        for element in dataset
        if not is_top or element.tag not in OWN
    }


def shape(element: Any) -> Any:
    """The value as text or bytes, with None for an empty one."""
    value = element.value
    if element.is_empty:
        return None
    return value if isinstance(value, bytes) else str(value)


def expected(dataset: Dataset, key: bytes, *, is_top: bool = True) -> dict[int, Any]:
    """The rest of a data set by the basic profile without options."""
    return {
        int(element.tag): result(element, key)
        for element in dataset
        if stays(int(element.tag), is_top)
    }


def stays(tag: int, is_top: bool) -> bool:
    """Whether an attribute is in the result, with any value."""
    group, action = tag >> 16, TABLE.get(tag)
    if group % 2 or group < 8 or not tag & 0xFFFF or not dictionary_has_tag(tag):
        return False
    if (
        tag in IDENTIFYING
        or (is_top and tag in OWN)
        or (not is_top and group == 0x7FE0)
        or action == "X"
    ):
        return False
    return action is not None or not (dictionary_is_retired(tag) or dictionary_VR(tag) in UNLISTED)


def result(element: Any, key: bytes) -> Any:
    """The value of an attribute that stays."""
    tag, vr = int(element.tag), element.VR
    action = TABLE.get(tag)
    if tag == 0x00100020:
        return token(str(element.value), key)
    if action in ("Z", "X/Z"):
        return [] if vr == "SQ" else None
    if action in ("D", "Z/D", "X/D", "X/Z/D"):
        return [{}] if vr == "SQ" else DUMMY
    if vr == "SQ":
        return [expected(item, key, is_top=False) for item in element.value]
    return uid(str(element.value), key) if vr == "UI" and not element.is_empty else shape(element)


def token(text: str, key: bytes) -> str | None:
    return hmac.new(key, text.encode(), "sha256").hexdigest()[:32] if text else None


def uid(text: str, key: bytes) -> str:
    """The UID in place of another one, with the bits of a UUID of version 4."""
    if text in UID_dictionary:
        return text
    digits = list(hmac.new(key, text.encode(), hashlib.sha256).digest()[:16])
    digits[6] = digits[6] & 0x0F | 0x40
    digits[8] = digits[8] & 0x3F | 0x80
    return f"2.25.{int.from_bytes(bytes(digits), 'big')}"


def difference(found: dict[int, Any], wanted: dict[int, Any]) -> str:
    """The first difference, or nothing."""
    if list(found) != list(wanted):
        return f"tags: {sorted(map(hex, found.keys() ^ wanted.keys()))}"
    for tag, value in wanted.items():
        if value == DUMMY:
            if not found[tag]:
                return f"{tag:08x}: {found[tag]!r}: want a dummy"
        elif isinstance(value, list) and isinstance(found[tag], list):
            if len(value) != len(found[tag]):
                return f"{tag:08x}: {len(found[tag])} items, want {len(value)}"
            for mine, want in zip(found[tag], value, strict=True):
                if text := difference(mine, want):
                    return f"{tag:08x}: {text}"
        elif found[tag] != value:
            return f"{tag:08x}: {found[tag]!r}: want {value!r}"
    return ""
