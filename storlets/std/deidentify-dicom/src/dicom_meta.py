"""The start of a file: the preamble, the file meta information, and its transfer syntax."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dicom_dictionary import Dictionary
from dicom_elements import BIG, ELEMENT, EXPLICIT, IMPLICIT, Elements, Encoding
from dicom_source import DicomError, Source
from dicom_writer import Writer

PREAMBLE_BYTES = 128
PREFIX = b"DICM"
MOST_META_BYTES = 64 * 1024
GROUP_LENGTH_HEADER = b"\x02\x00\x00\x00UL\x04\x00"
SOP_CLASS, SOP_INSTANCE = 0x00020002, 0x00020003
TRANSFER_SYNTAX = 0x00020010
VERSION, IMPLEMENTATION, IMPLEMENTATION_NAME = 0x00020001, 0x00020012, 0x00020013
#: A constant of this software, derived from a random UUID.
IMPLEMENTATION_UID = b"2.25.241734777876044113423428728035203354370"
IMPLEMENTATION_TEXT = b"STORLETS_DEIDENT"

IMPLICIT_LITTLE = "1.2.840.10008.1.2"
EXPLICIT_LITTLE = "1.2.840.10008.1.2.1"
EXPLICIT_BIG = "1.2.840.10008.1.2.2"
DEFLATED = "1.2.840.10008.1.2.1.99"
#: Words in the names of those whose pixels are elsewhere, or that are no encoding of a file.
REFUSED = ("JPIP", "SMPTE", "MIME", "XML", "Papyrus")


@dataclass(frozen=True)
class Syntax:
    """The transfer syntax of an object."""

    uid: str
    encoding: Encoding
    is_deflated: bool
    is_encapsulated: bool


def syntax_of(value: bytes, dictionary: Dictionary) -> Syntax:
    """The transfer syntax with a UID.

    :raises DicomError: it is unknown, or not supported.
    """
    uid = uid_of(value)
    name, kind = dictionary.uid(uid)
    if kind != "Transfer Syntax":
        raise DicomError("the transfer syntax is none of the DICOM standard")
    if any(word in name for word in REFUSED):
        raise DicomError(f"the transfer syntax {name} is not supported")
    encoding = {IMPLICIT_LITTLE: IMPLICIT, EXPLICIT_BIG: BIG}.get(uid, EXPLICIT)
    is_plain = uid in {IMPLICIT_LITTLE, EXPLICIT_LITTLE, EXPLICIT_BIG, DEFLATED}
    return Syntax(uid, encoding, uid == DEFLATED, not is_plain)


def uid_of(value: bytes) -> str:
    """A UID without its padding."""
    return value.strip(b"\0 ").decode("latin-1")


def read_meta(source: Source) -> dict[int, bytes]:
    """The values of the file meta information.

    :raises DicomError: the object does not begin with it.
    """
    start = source.take(PREAMBLE_BYTES + len(PREFIX))
    if start[PREAMBLE_BYTES:] != PREFIX:
        raise DicomError("the object is no DICOM file: DICM is not at byte 128")
    head = source.take(len(GROUP_LENGTH_HEADER) + 4)
    (length,) = struct.unpack_from("<I", head, len(GROUP_LENGTH_HEADER))
    if not head.startswith(GROUP_LENGTH_HEADER) or length > MOST_META_BYTES:
        raise DicomError(
            "the file meta information does not begin with its length, or has more than"
            f" {MOST_META_BYTES >> 10} KiB"
        )
    values = {}
    data = source.take(length)
    for event in Elements(reader_of(data), EXPLICIT, lambda _tag: ()):
        if event.kind != ELEMENT or event.tag >> 16 != 2:
            raise DicomError("the file meta information has other elements than those of its group")
        values[event.tag] = event.value
    return values


def reader_of(data: bytes | bytearray | memoryview) -> Source:
    """A source of bytes in memory."""
    view, place = memoryview(data), 0

    def read(size: int) -> bytes:
        nonlocal place
        block = bytes(view[place : place + size])
        place += len(block)
        return block

    source = Source(read)
    source.release()
    return source


def meta(sop_class: bytes, instance: bytes, syntax: Syntax) -> bytes:
    """The start of a file without any other value of the object."""
    parts: list[bytes] = []
    writer = Writer(parts.append, EXPLICIT)
    writer.element(VERSION, "OB", b"\0\1")
    writer.element(SOP_CLASS, "UI", sop_class.strip(b"\0 "))
    writer.element(SOP_INSTANCE, "UI", instance.strip(b"\0 "))
    writer.element(TRANSFER_SYNTAX, "UI", syntax.uid.encode())
    writer.element(IMPLEMENTATION, "UI", IMPLEMENTATION_UID)
    writer.element(IMPLEMENTATION_NAME, "SH", IMPLEMENTATION_TEXT)
    body = b"".join(parts)
    length = GROUP_LENGTH_HEADER + struct.pack("<I", len(body))
    return bytes(PREAMBLE_BYTES) + PREFIX + length + body
