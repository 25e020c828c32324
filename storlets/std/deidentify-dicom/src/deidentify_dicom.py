"""Changes, empties and removes attributes of a DICOM object by the profile of PS3.15 Annex E.

The data set before the pixels is read and checked as a whole before a byte of the result leaves.
Then the pixels stream.
"""

from __future__ import annotations

import json
from typing import Any

from dicom_changes import Changes
from dicom_dictionary import Dictionary
from dicom_elements import PIXEL_TAGS, SEQUENCE, Elements
from dicom_meta import meta, reader_of
from dicom_object import DicomObject, opened
from dicom_pixels import copied
from dicom_profile import (
    BASIC,
    FULL_DATES,
    MODIFIED_DATES,
    PATIENT_ID,
    UIDS,
    Profile,
    options_of,
)
from dicom_refusals import BURNED_IN, SOP_CLASS, SOP_INSTANCE, require_supported
from dicom_source import Deflated
from dicom_values import Values
from dicom_writer import Writer
from parameters import is_true
from storlet import secrets

#: Attributes that say how the object was de-identified.
IDENTITY_REMOVED, METHOD, METHOD_CODES = 0x00120062, 0x00120063, 0x00120064
DATES_MODIFIED = 0x00280303
CODE, SCHEME, MEANING = 0x00080100, 0x00080102, 0x00080104


class DeidentifyDicom:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        dictionary = Dictionary()
        profile = Profile(options_of(params["retain"]), dictionary)
        values = Values(secrets.get(params["key"]), dictionary)
        are_clean = is_true(params, "pixels-are-clean")
        found = opened(in_files[0].read, dictionary)
        require_supported(found.facts, found.pixels is not None, are_clean, dictionary)
        if MODIFIED_DATES in profile.options:
            values.begin_shift(found.facts.get(PATIENT_ID, b""))
        additions = additions_for(found, profile, are_clean)
        changes = Changes(profile, values, dictionary, additions)
        pixel_bytes = write(found, changes, profile, values, dictionary, out_files[0])
        if len(out_files) > 1:
            receipt = {
                "profile": profile.title,
                "retained": list(profile.options),
                **changes.receipt(),
                "pixel-bytes": pixel_bytes,
            }
            out_files[1].set_metadata({"Content-Type": "application/json"})
            out_files[1].write(json.dumps(receipt).encode() + b"\n")


def write(
    found: DicomObject,
    changes: Changes,
    profile: Profile,
    values: Values,
    dictionary: Dictionary,
    target: Any,
) -> int:
    """Write the result; the number of bytes of its pixels."""
    syntax, head = found.syntax, bytearray()
    events = Elements(reader_of(found.head), syntax.encoding, dictionary.vrs)
    before = Writer(head.extend, syntax.encoding)
    changes.apply(events, before)
    changes.add_before(PIXEL_TAGS[0], before)
    instance = found.facts[SOP_INSTANCE]
    if UIDS not in profile.options:
        instance = values.uids(instance)
    # From here on the result leaves.
    target.set_metadata({"Content-Type": "application/dicom"})
    target.write(meta(found.facts[SOP_CLASS], instance, syntax))
    output = Deflated(target.write) if syntax.is_deflated else target
    output.write(head)
    count = 0
    if found.pixels is not None:
        writer = Writer(output.write, syntax.encoding)
        count = copied(found.pixels, found.source, writer)
        changes.apply(found.rest, writer)
    if isinstance(output, Deflated):
        output.finish()
    return count


def additions_for(
    found: DicomObject, profile: Profile, are_clean: bool
) -> dict[int, tuple[str, bytes]]:
    """The elements that say how the object was de-identified."""
    codes: list[bytes] = []
    writer = Writer(codes.append, found.syntax.encoding)
    for option in (BASIC, *profile.options.values()):
        writer.item()
        writer.element(CODE, "SH", option.code.encode())
        writer.element(SCHEME, "SH", b"DCM")
        writer.element(MEANING, "LO", option.meaning.encode())
        writer.item_end()
    dates = b"REMOVED"
    if FULL_DATES in profile.options:
        dates = b"UNMODIFIED"
    elif MODIFIED_DATES in profile.options:
        dates = b"MODIFIED"
    additions = {
        IDENTITY_REMOVED: ("CS", b"YES"),
        METHOD: ("LO", profile.title.encode()),
        METHOD_CODES: (SEQUENCE, b"".join(codes)),
        DATES_MODIFIED: ("CS", dates),
    }
    if are_clean and BURNED_IN in found.facts:
        additions[BURNED_IN] = ("CS", b"NO")
    return additions
