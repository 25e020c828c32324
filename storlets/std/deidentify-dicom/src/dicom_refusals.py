"""Objects that are refused: those whose content is text, and those whose pixels may show text.

The profile is for attributes.  Nothing reads pixels or documents, so an object passes only if its
class is known not to need that, or the caller states that its pixels are clean.
"""

from __future__ import annotations

from dicom_dictionary import Dictionary
from dicom_meta import uid_of
from dicom_source import DicomError

SOP_CLASS, SOP_INSTANCE = 0x00080016, 0x00080018
IMAGE_TYPE, CONVERSION_TYPE = 0x00080008, 0x00080064
ROWS, BURNED_IN, VISUAL_FEATURES = 0x00280010, 0x00280301, 0x00280302
#: Part of the names of classes whose objects have pixels.
IMAGE = "Image Storage"
STORAGE = "1.2.840.10008.5.1.4.1.1."
#: Parts of the UID after that of storage classes: objects that are refused.
DOCUMENTS = {
    "9.4": "a recording of voices",
    "11": "a presentation state, which has text",
    "78.6": "a report",
    "79.1": "a report",
    "88": "a structured report",
    "90": "an assessment, which has text",
    "91": "annotations, which have text",
    "104": "an encapsulated document",
    "131": "a display, which has text",
    "200": "a protocol, which has text",
    "201": "an inventory of several patients",
    "501": "an object of security screening",
}
#: Classes whose pixels usually have text, or show a face or a label.
PICTURES = {
    "3": "ultrasound",
    "6": "ultrasound",
    "7": "secondary capture",
    "77": "photographs and videos",
}


def require_supported(
    facts: dict[int, bytes], has_pixels: bool, are_clean: bool, dictionary: Dictionary
) -> None:
    """Raise unless an object can be de-identified by its attributes.

    :param facts: values of the data set before its pixels, by their tags.
    :param are_clean: the caller states that pixels show no text and no face.
    """
    for tag, name in ((SOP_CLASS, "SOPClassUID"), (SOP_INSTANCE, "SOPInstanceUID")):
        if not uid_of(facts.get(tag, b"")):
            raise DicomError(f"{name} has no value")
    uid = uid_of(facts[SOP_CLASS])
    name, kind = dictionary.uid(uid)
    if kind != "SOP Class" or not uid.startswith(STORAGE):
        raise DicomError(
            f"the SOP class {name or 'is private or unknown'}"
            f"{' is not supported' if name else ''}: want an image or another object of one patient"
        )
    document = found_in(DOCUMENTS, uid)
    if document:
        raise DicomError(f"the object is {document} ({name}): only tags are de-identified")
    if not has_pixels and (ROWS in facts or IMAGE in name):
        # A cut between two elements leaves a valid data set.
        raise DicomError("the object is cut: it is an image, and has no pixels")
    if not are_clean and (reason := reason_for_text(facts, uid)):
        raise DicomError(
            f"{reason}: the storlet does not read pixels: if they show no text, label or face, run"
            " it with pixels-are-clean=true"
        )


def reason_for_text(facts: dict[int, bytes], uid: str) -> str:
    """Why the pixels may show text or a face, or nothing."""
    picture = found_in(PICTURES, uid)
    if picture:
        return f"the pixels of the class {picture} usually show text, labels or faces"
    if text_of(facts, BURNED_IN) not in ("", "NO"):
        return "BurnedInAnnotation says that the pixels have text"
    if text_of(facts, VISUAL_FEATURES) not in ("", "NO"):
        return "RecognizableVisualFeatures says that the pixels show a face"
    if text_of(facts, CONVERSION_TYPE):
        return "ConversionType says that the pixels were captured or scanned"
    if "SAVE" in text_of(facts, IMAGE_TYPE):
        return "ImageType says that the pixels are those of a screen"
    return ""


def text_of(facts: dict[int, bytes], tag: int) -> str:
    return facts.get(tag, b"").strip(b"\0 ").decode("latin-1").upper()


def found_in(table: dict[str, str], uid: str) -> str:
    """The text for a class, by the longest part of its UID."""
    parts = uid.removeprefix(STORAGE).split(".")
    for count in range(len(parts), 0, -1):
        found = table.get(".".join(parts[:count]))
        if found:
            return found
    return ""
