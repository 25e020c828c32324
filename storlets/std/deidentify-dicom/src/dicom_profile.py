"""The action for each attribute: Table E.1-1 with the options of a run, resolved.

Where the table leaves a choice by the type of the attribute in its IOD, the action here satisfies
each type: a value that is required stays, with a dummy content.  An attribute that the table does
not name stays only if its VR cannot have text or a date of a person; some others are removed, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dicom_dictionary import Dictionary
from dicom_source import DicomError
from dicom_table import EDITION, ROWS
from parameters import shown


class Action(Enum):
    """The result of an attribute."""

    KEEP = "kept"
    REMOVE = "removed"
    EMPTY = "emptied"
    DUMMY = "replaced by a dummy"
    UID = "replaced by a UID"
    SHIFT = "shifted"
    TOKEN = "replaced by a token"  # noqa: S105  a value of the output, no password


#: The actions of the table.  X/Z is Z, because an empty value is right for the types 2 and 3; a
#: dummy is right for each type.
RESOLVED = {
    "X": Action.REMOVE,
    "Z": Action.EMPTY,
    "X/Z": Action.EMPTY,
    "D": Action.DUMMY,
    "Z/D": Action.DUMMY,
    "X/D": Action.DUMMY,
    "X/Z/D": Action.DUMMY,
    "U": Action.UID,
    # A sequence whose items are processed: the UIDs in it are replaced.
    "X/Z/U*": Action.KEEP,
}
UID_VR = "UI"
DATES = frozenset({"DA", "DT", "TM"})
#: VRs of attributes that stay only if the table says so: free text, names, addresses, and dates.
DOUBTFUL = frozenset({"LT", "ST", "UT", "UR", "PN", "AE", "UN"}) | DATES
#: Attributes that the table does not list, although their values are dates, names, numbers or
#: addresses of persons in VRs of short text, or the values of before.
IDENTIFYING = frozenset(
    {
        0x00100033, 0x00100034,  # PatientBirthDateInAlternativeCalendar, and that of the death
        0x00102295,  # BreedRegistrationNumber
        0x00181803,  # NTPSourceAddress
        0x0074100C,  # ContactDisplayName
        0x04000500,  # EncryptedAttributesSequence
        0x21000160,  # OwnerID
        0x4010101A, 0x40101051,  # BoardingPassID, ItineraryID
    }
)  # fmt: skip
PATIENT_ID = 0x00100020
UIDS, FULL_DATES, MODIFIED_DATES = "uids", "full-dates", "modified-dates"


@dataclass(frozen=True)
class Option:
    """An option of the profile: its letter in the table, its code, and the meaning of the code."""

    letter: str
    code: str
    meaning: str


BASIC = Option("", "113100", "Basic Application Confidentiality Profile")
OPTIONS = {
    UIDS: Option("u", "113110", "Retain UIDs Option"),
    "devices": Option("d", "113109", "Retain Device Identity Option"),
    "institutions": Option("i", "113112", "Retain Institution Identity Option"),
    "patient-characteristics": Option("p", "113108", "Retain Patient Characteristics Option"),
    FULL_DATES: Option("t", "113106", "Retain Longitudinal Temporal Information Full Dates Option"),
    MODIFIED_DATES: Option(
        "t", "113107", "Retain Longitudinal Temporal Information Modified Dates Option"
    ),
}
#: The other options, each with the reason why there is none.
UNSUPPORTED = {
    "safe-private": "no list says which private attributes are safe",
    "clean-descriptors": "no search finds the names of persons in text",
    "clean-structured-content": "no search finds the names of persons in text",
    "clean-graphics": "the storlet does not read graphics",
    "clean-pixels": "the storlet does not read pixels",
    "clean-visual-features": "the storlet does not read pixels",
}


def options_of(text: str) -> dict[str, Option]:
    """The options that a list names.

    :raises DicomError: with every fault.
    """
    names = [each.strip() for each in text.split(",") if each.strip()]
    faults = []
    for name in dict.fromkeys(names):
        if name in UNSUPPORTED:
            faults.append(f"retain: {name} is not supported: {UNSUPPORTED[name]}")
        elif name not in OPTIONS:
            faults.append(f"retain: {shown(name)}: want {', '.join(OPTIONS)}")
    if FULL_DATES in names and MODIFIED_DATES in names:
        faults.append(f"retain: {FULL_DATES} and {MODIFIED_DATES}: want one of them")
    if faults:
        raise DicomError("; ".join(faults))
    return {name: option for name, option in OPTIONS.items() if name in names}


class Profile:
    """The actions of a run.

    :ivar options: the options by their names, in the order of the table.
    """

    def __init__(self, options: dict[str, Option], dictionary: Dictionary) -> None:
        self.options = options
        self._letters = {option.letter for option in options.values()}
        self._dictionary = dictionary
        self._rows = {}
        for row in ROWS.split("\n"):
            if row:
                tag, action, letters = (*row.split(), "")[:3]
                self._rows[int(tag, 16)] = (RESOLVED[action], letters)

    @property
    def title(self) -> str:
        """The method, as an attribute of the result names it."""
        return f"DICOM PS3.15 {EDITION} Basic Profile, tags only"

    def lists(self, tag: int) -> bool:
        """Whether the table has an attribute."""
        return tag in self._rows

    def action(self, tag: int) -> Action:
        """The action for an attribute, which the dictionary must have."""
        basic, letters = self._rows.get(tag, (None, ""))
        vr = self._dictionary.vrs(tag)[0]
        if basic is None:
            return Action.REMOVE if tag in IDENTIFYING else self._of_unlisted(vr)
        chosen = self._letters.intersection(letters)
        if "t" in chosen and MODIFIED_DATES in self.options:
            # A value that is no date in digits cannot be shifted.
            return Action.SHIFT if vr in DATES else basic
        if chosen:
            return Action.KEEP
        if tag == PATIENT_ID:
            return Action.TOKEN
        return Action.REMOVE if vr == "UN" else basic

    def _of_unlisted(self, vr: str) -> Action:
        if vr == UID_VR:
            return Action.KEEP if UIDS in self.options else Action.UID
        if vr in DATES and FULL_DATES in self.options:
            return Action.KEEP
        if vr in DATES and MODIFIED_DATES in self.options:
            return Action.SHIFT
        return Action.REMOVE if vr in DOUBTFUL else Action.KEEP
