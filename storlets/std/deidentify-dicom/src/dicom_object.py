"""A DICOM object that was read up to its pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dicom_dictionary import Dictionary
from dicom_elements import BEGIN, ELEMENT, END, PIXELS, Elements, Event
from dicom_meta import SOP_CLASS as META_SOP_CLASS
from dicom_meta import TRANSFER_SYNTAX, Syntax, read_meta, syntax_of, uid_of
from dicom_pixels import require_form
from dicom_profile import PATIENT_ID
from dicom_refusals import (
    BURNED_IN,
    CONVERSION_TYPE,
    IMAGE_TYPE,
    ROWS,
    SOP_CLASS,
    SOP_INSTANCE,
    VISUAL_FEATURES,
)
from dicom_source import DicomError, Inflated, Source

#: The SOP class of a file that lists others.
DIRECTORY = "1.2.840.10008.1.3.10"
#: Attributes that decide about an object as a whole.
FACTS = frozenset(
    {
        SOP_CLASS, SOP_INSTANCE, IMAGE_TYPE, CONVERSION_TYPE, PATIENT_ID,
        ROWS, BURNED_IN, VISUAL_FEATURES,
    }
)  # fmt: skip


@dataclass(frozen=True)
class DicomObject:
    """An object whose pixels, if there are any, are the next bytes of its source.

    :ivar head: the data set before the pixels.
    :ivar facts: values of its attributes in ``FACTS``.
    :ivar rest: the events after the pixels.
    """

    syntax: Syntax
    head: bytearray
    facts: dict[int, bytes]
    pixels: Event | None
    source: Source
    rest: Iterator[Event]


def opened(read: Callable[[int], bytes], dictionary: Dictionary) -> DicomObject:
    """The object that ``read`` gives.

    :raises DicomError: it is no valid DICOM up to its pixels.
    """
    file = Source(read)
    found = read_meta(file)
    file.release()
    if uid_of(found.get(META_SOP_CLASS, b"")) == DIRECTORY:
        raise DicomError("the object is a DICOMDIR: run the storlet on the files that it lists")
    syntax = syntax_of(found.get(TRANSFER_SYNTAX, b""), dictionary)
    source = Source(Inflated(file).read if syntax.is_deflated else file.read)
    elements = Elements(source, syntax.encoding, dictionary.vrs)
    events = iter(elements)
    facts, pixels = facts_of(events)
    head = source.release()
    if pixels is not None:
        require_form(pixels, syntax.is_encapsulated)
        del head[elements.start :]
    sop_class = facts.get(SOP_CLASS)
    if sop_class is not None and uid_of(found.get(META_SOP_CLASS, b"")) != uid_of(sop_class):
        raise DicomError("the SOP class of the file is another one than that of its data set")
    return DicomObject(syntax, head, facts, pixels, source, events)


def facts_of(events: Iterator[Event]) -> tuple[dict[int, bytes], Event | None]:
    """The values of ``FACTS``, and the pixels.

    All events before the pixels are read, so the structure before them is checked.
    """
    facts, depth = {}, 0
    for event in events:
        depth += (event.kind == BEGIN) - (event.kind == END)
        if event.kind == ELEMENT and not depth and event.tag in FACTS:
            facts[event.tag] = event.value
        if event.kind == PIXELS:
            return facts, event
    return facts, None
