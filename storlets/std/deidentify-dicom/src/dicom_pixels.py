"""Pixels, which pass unchanged, in blocks: they are neither decoded nor held in memory."""

from __future__ import annotations

import struct

from dicom_elements import ITEM_TAG, SEQUENCE_END_TAG, UNDEFINED, Event, named
from dicom_source import DicomError, Source
from dicom_writer import Writer


def require_form(event: Event, is_encapsulated: bool) -> None:
    """Raise unless pixels have the form of the transfer syntax."""
    if is_encapsulated != (event.length == UNDEFINED):
        raise DicomError(
            f"{named(event.tag)} has {'a' if is_encapsulated else 'no'} length, unlike objects with"
            " this transfer syntax"
        )


def copied(event: Event, source: Source, writer: Writer) -> int:
    """Copy the value of pixels; the number of its bytes."""
    writer.header(event.tag, event.vr, event.length)
    start = source.place
    if event.length != UNDEFINED:
        for block in source.blocks(event.length):
            writer.write(block)
        return source.place - start
    while True:
        header = source.take(8)
        # Encapsulated pixels exist in little endian only.
        group, number, length = struct.unpack("<HHI", header)
        tag = group << 16 | number
        if tag == SEQUENCE_END_TAG and length == 0:
            writer.write(header)
            return source.place - start
        if tag != ITEM_TAG or length == UNDEFINED:
            raise DicomError(f"{named(event.tag)} has something else than a fragment")
        writer.write(header)
        for block in source.blocks(length):
            writer.write(block)
