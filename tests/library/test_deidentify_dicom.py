"""``std:deidentify-dicom`` does what a slow reference does, or it ends in one error."""

from __future__ import annotations

import collections
import io
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydicom
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydicom.datadict import DicomDictionary
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.sr._concepts_dict import concepts
from pydicom.uid import UID

from storlet_daemon.author import account_secrets
from tests.library import plain_dicom
from tests.library.support import LibraryStorlet, Target, shared

STORLET = LibraryStorlet("deidentify-dicom")
TABLE = shared("dicom_table")
ELEMENTS = shared("dicom_elements")
SOURCE = shared("dicom_source")
ERROR: Any = SOURCE.DicomError
KEY = bytes(range(32))
CT = "1.2.840.10008.5.1.4.1.1.2"
IMPLICIT, EXPLICIT = "1.2.840.10008.1.2", "1.2.840.10008.1.2.1"
DEFLATED, BIG = "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.2"
JPEG = "1.2.840.10008.1.2.4.50"
SAMPLES = Path(pydicom.__file__).parent / "data/test_files"
PIXELS = bytes(range(64)) * 2
MEBIBYTE = 1 << 20


class Output(Target):
    """An output with its metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: Mapping[str, str] = {}

    def set_metadata(self, metadata: dict[str, str]) -> None:
        assert not self.data
        self.metadata = metadata


def ran(
    data: bytes | io.BytesIO, *, key: bytes = KEY, **parameters: str
) -> tuple[bytes, dict[str, Any]]:
    """The output and the receipt."""
    account_secrets.begin({"mac-key": key})
    target, receipt = Output(), Output()
    storlet = STORLET.module.DeidentifyDicom(None)
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    given_values = {name.replace("_", "-"): value for name, value in parameters.items()}
    storlet([source], [target, receipt], STORLET.values({"key": "mac-key", **given_values}))
    assert target.metadata == {"Content-Type": "application/dicom"}
    return bytes(target.data), json.loads(receipt.data)


def changed(data: bytes, **parameters: str) -> Dataset:
    return plain_dicom.read(ran(data, **parameters)[0])


def failure(data: bytes, **parameters: str) -> str:
    """The error of a run, before which nothing has left."""
    account_secrets.begin({"mac-key": KEY})
    target = Output()
    values = {"key": "mac-key", **{name.replace("_", "-"): v for name, v in parameters.items()}}
    with pytest.raises(ERROR) as caught:
        STORLET.module.DeidentifyDicom(None)([io.BytesIO(data)], [target], STORLET.values(values))
    assert not target.data
    return str(caught.value)


def sample(**attributes: Any) -> Dataset:
    """A small image."""
    dataset = Dataset()
    dataset.SOPClassUID, dataset.SOPInstanceUID = CT, "1.2.3.4.1"
    dataset.StudyInstanceUID, dataset.SeriesInstanceUID = "1.2.3.4", "1.2.3.4.0"
    dataset.PatientName, dataset.PatientID = "Levi^Dana", "17"
    dataset.StudyDate, dataset.Modality = "20261126", "CT"
    dataset.Rows, dataset.Columns, dataset.BitsAllocated = 8, 8, 16
    for name, value in attributes.items():
        setattr(dataset, name, value)
    return dataset


def encoded(
    dataset: Dataset, syntax: str = EXPLICIT, pixels: bytes | None = PIXELS, **meta: str
) -> bytes:
    """A file; the pixels of an encapsulated syntax are one fragment."""
    file = io.BytesIO()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = UID(syntax)
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    for name, value in meta.items():
        setattr(dataset.file_meta, name, value)
    if pixels is not None:
        dataset.PixelData = pixels
        dataset["PixelData"].VR = "OW"
        if syntax == JPEG:
            dataset.PixelData = pydicom.encaps.encapsulate([pixels])
            dataset["PixelData"].VR = "OB"
    pydicom.dcmwrite(
        file, dataset, implicit_vr=syntax == IMPLICIT, little_endian=syntax != BIG,
        enforce_file_format=True,
    )  # fmt: skip
    return file.getvalue()


def element(tag: int, vr: str, value: bytes, length: int | None = None) -> bytes:
    """An element in explicit VR, little endian."""
    size = len(value) if length is None else length
    head = struct.pack("<HH", tag >> 16, tag & 0xFFFF) + vr.encode()
    long = vr in ELEMENTS.LONG_VRS
    return head + (struct.pack("<HI", 0, size) if long else struct.pack("<H", size)) + value


ITEM, ITEM_END, SEQUENCE_END = (
    struct.pack("<HHI", 0xFFFE, number, length)
    for number, length in ((0xE000, 0xFFFFFFFF), (0xE00D, 0), (0xE0DD, 0))
)


def with_elements(*elements: bytes, after: bytes = b"") -> bytes:
    """A file with elements of the group 0054 before its pixels, and others after these."""
    data = encoded(sample())
    place = data.index(b"\xe0\x7f\x10\x00")
    return data[:place] + b"".join(elements) + data[place:] + after


# --- the table ------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_package() -> None:
    rows = {int(row.split()[0], 16): row.split()[1] for row in TABLE.ROWS.split("\n") if row}
    assert rows == plain_dicom.TABLE
    assert TABLE.EDITION in plain_dicom.DATABASE


def test_the_options_have_the_number_of_rows_of_the_standard() -> None:
    letters = collections.Counter(
        letter for row in TABLE.ROWS.split("\n") for letter in "".join(row.split()[2:])
    )
    assert letters == {"t": 165, "u": 59, "d": 46, "i": 10, "p": 9}


def test_the_codes_of_the_options_are_those_of_the_standard() -> None:
    profile = shared("dicom_profile")
    known = {code: row[0] for rows in concepts["DCM"].values() for code, row in rows.items()}
    for option in (profile.BASIC, *profile.OPTIONS.values()):
        assert known[option.code] == option.meaning


# --- the reference --------------------------------------------------------------------------------

TEXTS = st.text("abcXYZ 019^.-", min_size=1, max_size=12).map(str.strip)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "AE": TEXTS, "LO": TEXTS, "LT": TEXTS, "PN": TEXTS, "SH": TEXTS, "ST": TEXTS, "UC": TEXTS,
    "UT": TEXTS, "CS": st.text("ABC0_", max_size=9), "UR": st.just("http://example.com/x"),
    "AS": st.just("042Y"), "DA": st.just("20261126"), "DT": st.just("20261126101112.5+0100"),
    "TM": st.just("101112"), "DS": st.just("1.5"), "IS": st.just("7"),
    "UI": st.sampled_from(["1.2.3", "1.2.3.4", CT, EXPLICIT, "2.25.7"]),
    "US": st.integers(0, 65535), "SS": st.integers(-9, 9), "UL": st.integers(0, 1 << 31),
    "SL": st.integers(-9, 9), "FL": st.just(1.5), "FD": st.just(2.5),
    "OB": st.binary(max_size=4).map(lambda data: data * 2),
}  # fmt: skip
NUMBER_BYTES = {
    "AT": 4, "FD": 8, "FL": 4, "SL": 4, "SS": 2, "SV": 8, "UL": 4, "US": 2, "UV": 8,
}  # fmt: skip
SKIPPED = (0x00080005, 0x00080008, 0x00080016, 0x00080018, 0x00080064, 0x00280301, 0x00280302)
TAGS = [
    tag
    for tag, row in DicomDictionary.items()
    if tag >> 16 >= 8 and tag >> 16 < 0x7FE0 and row[0] in (*VALUES, "SQ") and tag not in SKIPPED
]
#: Half of the tags are those of the table.
ANY_TAG = st.one_of(
    st.sampled_from(TAGS), st.sampled_from([tag for tag in TAGS if tag in plain_dicom.TABLE])
)


@st.composite
def datasets(draw: st.DrawFn, depth: int = 2) -> Dataset:
    dataset = Dataset()
    for tag in draw(st.lists(ANY_TAG, max_size=8, unique=True)):
        vr = DicomDictionary[tag][0]
        if vr == "SQ":
            items = draw(st.lists(datasets(depth - 1), max_size=2)) if depth else []
            dataset.add_new(tag, vr, Sequence(items))
        else:
            value = draw(st.one_of(VALUES[vr], st.just(""))) or None
            if vr in NUMBER_BYTES and value is not None:
                value = [value] * int(DicomDictionary[tag][1].partition("-")[0])
            dataset.add_new(tag, vr, value)
    if draw(st.booleans()):
        block = dataset.private_block(0x0029, "MAKER", create=True)
        block.add_new(1, draw(st.sampled_from(["LO", "UN"])), b"Levi")
        if depth:
            block.add_new(2, "SQ", [draw(datasets(0))])
    return dataset


@settings(suppress_health_check=list(HealthCheck))
@given(
    generated=datasets(),
    syntax=st.sampled_from([IMPLICIT, EXPLICIT, BIG, DEFLATED, JPEG]),
    has_lengths=st.booleans(),
)
def test_the_result_is_that_of_the_reference(
    generated: Dataset, syntax: str, has_lengths: bool
) -> None:
    dataset = sample()
    dataset.update(generated)
    for item in dataset.iterall():
        if item.VR == "SQ":
            item.is_undefined_length = not has_lengths
    data = encoded(dataset, syntax)
    output, _ = ran(data)
    original, found = plain_dicom.read(data), plain_dicom.read(output)
    wanted = plain_dicom.expected(original, KEY)
    assert not plain_dicom.difference(plain_dicom.plain(found), wanted)
    assert found.PixelData == original.PixelData
    assert found.file_meta.TransferSyntaxUID == syntax
    # The de-identified object can be de-identified.
    again, _ = ran(output)
    assert plain_dicom.plain(plain_dicom.read(again)).keys() == plain_dicom.plain(found).keys()


LETTERS = {
    int(row.split()[0], 16): "".join(row.split()[2:]) for row in TABLE.ROWS.split("\n") if row
}
UNLISTED_LETTERS = {"UI": "u", "DA": "t", "DT": "t", "TM": "t"}


@settings(suppress_health_check=list(HealthCheck))
@given(
    generated=datasets(0),
    names=st.sets(st.sampled_from(["uids", "devices", "institutions", "patient-characteristics"])),
    dates=st.sampled_from(["", "full-dates", "modified-dates"]),
)
def test_an_option_changes_the_result_of_its_attributes_only(
    generated: Dataset, names: set[str], dates: str
) -> None:
    dataset = sample()
    dataset.update(generated)
    dataset.PatientID = "17"
    data = encoded(dataset)
    options = [*sorted(names), *filter(None, [dates])]
    original, basic, found = (
        plain_dicom.plain(plain_dicom.read(each))
        for each in (data, ran(data)[0], ran(data, retain=",".join(options))[0])
    )
    chosen = {name[0].replace("f", "t").replace("m", "t") for name in options}
    for tag, value in original.items():
        vr = DicomDictionary[tag][0] if tag in DicomDictionary else "UN"
        if vr == "SQ":
            continue
        is_retired = tag in DicomDictionary and bool(DicomDictionary[tag][3])
        unlisted = "" if is_retired or tag >> 16 == 2 else UNLISTED_LETTERS.get(vr, "")
        matching = chosen.intersection(LETTERS.get(tag, unlisted))
        if not matching:
            assert found.get(tag) == basic.get(tag), hex(tag)
        elif dates != "modified-dates" or "t" not in matching:
            assert found.get(tag) == value, hex(tag)
        elif vr in ("DA", "DT") and value:
            assert found[tag] < "2026", hex(tag)


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.dcm")))
def test_objects_of_many_programs_keep_their_pixels_or_are_an_error(name: str) -> None:
    data = (SAMPLES / name).read_bytes()
    try:
        output, receipt = ran(data, pixels_are_clean="true")
    except ERROR as error:
        text = str(error)
    else:
        text = ""
    assert REFUSED_SAMPLES.get(name, "") in text
    if name in REFUSED_SAMPLES:
        return
    assert not text
    original, found = plain_dicom.read(data), plain_dicom.read(output)
    assert ("PixelData" in found) == ("PixelData" in original)
    if "PixelData" in original:
        assert found.PixelData == original.PixelData
        assert receipt["pixel-bytes"] >= len(original.PixelData)
    assert found.SOPInstanceUID == found.file_meta.MediaStorageSOPInstanceUID
    assert not [each for each in found.iterall() if each.tag.is_private]


REFUSED_SAMPLES = {
    "DICOMDIR-empty.dcm": "the object is a DICOMDIR",
    "ExplVR_BigEndNoMeta.dcm": "DICM is not at byte 128",
    "ExplVR_LitEndNoMeta.dcm": "DICM is not at byte 128",
    "MR_truncated.dcm": "the object is cut",
    "SC_rgb_jpeg.dcm": "has a VR that does not exist",
    "UN_sequence.dcm": "SOPClassUID has no value",
    "empty_charset_LEI.dcm": "SOPClassUID has no value",
    "meta_missing_tsyntax.dcm": "transfer syntax",
    "nested_priv_SQ.dcm": "SOPClassUID has no value",
    "no_meta.dcm": "DICM is not at byte 128",
    "no_meta_group_length.dcm": "does not begin with its length",
    "priv_SQ.dcm": "SOPClassUID has no value",
    "reportsi.dcm": "a structured report",
    "reportsi_with_empty_number_tags.dcm": "a structured report",
    "rtplan_truncated.dcm": "the object is cut",
    "rtstruct.dcm": "DICM is not at byte 128",
    "test-SR.dcm": "a structured report",
}


# --- what is found --------------------------------------------------------------------------------

LONG_TEXTS = {"LO", "LT", "PN", "SH", "ST", "UC", "UT", "AE"}


def test_no_text_of_a_listed_attribute_stays_at_any_depth() -> None:
    inner = Dataset()
    for tag in plain_dicom.TABLE:
        row = DicomDictionary.get(tag)
        # An offset from UTC stays with dates.
        if row and row[0] in LONG_TEXTS and tag >> 16 >= 8 and tag != 0x00080201:
            inner.add_new(tag, row[0], f"SECRET{tag:08X}"[:16])
    middle = Dataset()
    middle.ReferencedSOPClassUID = CT
    middle.PurposeOfReferenceCodeSequence = [inner]
    dataset = sample(ReferencedImageSequence=[middle], SharedFunctionalGroupsSequence=[inner])
    dataset.update({each.tag: each for each in inner})
    data = encoded(dataset)
    assert data.count(b"SECRET") > 500
    for retain in ("", "uids", "full-dates", "modified-dates"):
        output, receipt = ran(data, retain=retain)
        assert b"SECRET" not in output
        assert "SECRET" not in json.dumps(receipt)
        found = plain_dicom.read(output)
        assert len(found.ReferencedImageSequence[0].PurposeOfReferenceCodeSequence) == 1


def test_the_result_says_how_it_was_made() -> None:
    output, receipt = ran(
        encoded(
            sample(DeidentificationMethod="by hand: Levi"), SourceApplicationEntityTitle="LEVI"
        ),
        retain="devices, modified-dates",
    )
    found = plain_dicom.read(output)
    assert output[:132] == bytes(128) + b"DICM"
    assert b"LEVI" not in output.upper()
    assert found.PatientIdentityRemoved == "YES"
    assert found.LongitudinalTemporalInformationModified == "MODIFIED"
    assert found.DeidentificationMethod == "DICOM PS3.15 2026c Basic Profile, tags only"
    sequence = found.DeidentificationMethodCodeSequence
    assert [each.CodeValue for each in sequence] == ["113100", "113109", "113107"]
    assert sorted(str(each.tag) for each in found.file_meta) == [
        f"(0002,{number:04X})" for number in (0, 1, 2, 3, 0x10, 0x12, 0x13)
    ]
    assert receipt["retained"] == ["devices", "modified-dates"]
    assert receipt["attributes"]["(0010,0010) PatientName"] == {"action": "emptied", "count": 1}
    assert receipt["pixel-bytes"] == len(PIXELS)
    assert changed(encoded(sample())).LongitudinalTemporalInformationModified == "REMOVED"
    full = changed(encoded(sample()), retain="full-dates")
    assert full.LongitudinalTemporalInformationModified == "UNMODIFIED"


def test_uids_and_tokens_are_the_same_in_all_objects_of_a_key() -> None:
    reference = Dataset()
    reference.ReferencedSOPClassUID, reference.ReferencedSOPInstanceUID = CT, "1.2.3.4.1"
    one = changed(encoded(sample()))
    other = changed(
        encoded(sample(SOPInstanceUID="1.2.3.4.2", SourceImageSequence=[reference]), IMPLICIT)
    )
    assert one.StudyInstanceUID == other.StudyInstanceUID != "1.2.3.4"
    assert other.SourceImageSequence[0].ReferencedSOPInstanceUID == one.SOPInstanceUID
    assert other.SourceImageSequence[0].ReferencedSOPClassUID == CT
    assert re.fullmatch(r"2\.25\.[1-9][0-9]{0,38}", one.SOPInstanceUID)
    assert one.PatientID == other.PatientID == plain_dicom.token("17", KEY)
    third = changed(encoded(sample()), key=bytes(32))
    assert (third.PatientID == one.PatientID, third.StudyInstanceUID == one.StudyInstanceUID) == (
        False,
        False,
    )


@pytest.mark.parametrize(
    ("option", "attribute", "value"),
    [
        ("uids", "StudyInstanceUID", "1.2.3.4"),
        ("devices", "DeviceSerialNumber", "D-7"),
        ("institutions", "InstitutionName", "Clinic"),
        ("patient-characteristics", "PatientAge", "042Y"),
        ("full-dates", "StudyDate", "20261126"),
    ],
)
def test_an_option_retains_its_attributes(option: str, attribute: str, value: str) -> None:
    given_values = {
        "DeviceSerialNumber": "D-7",
        "InstitutionName": "Clinic",
        "PatientAge": "042Y",
        "PatientComments": "Levi",
    }
    data = encoded(sample(**given_values))
    names = ["StudyInstanceUID", "StudyDate", *given_values]
    kept = changed(data, retain=option)
    assert [
        name for name in names if str(kept.get(name)) == str(sample(**given_values)[name].value)
    ] == [attribute]
    assert str(kept[attribute].value) == value


def test_dates_of_a_patient_are_shifted_together() -> None:
    first = encoded(
        sample(
            SeriesDate="20240229",
            StudyTime="101112.5",
            AcquisitionDateTime="20261127101112.5+0100",
            DateOfSecondaryCapture=["20261126", "20261127"],
            PatientBirthDate="19840517",
        )
    )
    found = changed(first, retain="modified-dates")
    day = pydicom.valuerep.DA
    moved = day("20261126") - day(found.StudyDate)
    assert 366 <= moved.days < 366 + 3653
    assert day("20240229") - day(found.SeriesDate) == moved
    assert day("20261126") - day(found.DateOfSecondaryCapture[0]) == moved
    assert str(found.AcquisitionDateTime).startswith(str(day("20261127") - moved).replace("-", ""))
    assert str(found.AcquisitionDateTime).endswith("101112.5+0100")
    assert (str(found.StudyTime), found.PatientBirthDate) == ("101112.5", "")
    second = changed(encoded(sample(SOPInstanceUID="1.9")), retain="modified-dates")
    assert second.StudyDate == found.StudyDate
    other = changed(encoded(sample(PatientID="18")), retain="modified-dates")
    assert other.StudyDate != found.StudyDate
    assert "PatientID has no value" in failure(
        encoded(sample(PatientID="")), retain="modified-dates"
    )


def test_a_date_of_a_device_is_shifted_with_the_others() -> None:
    data = encoded(sample(DateOfLastCalibration="20261126", DeviceSerialNumber="D-7"))
    found = changed(data, retain="devices,modified-dates")
    assert found.DateOfLastCalibration == found.StudyDate != "20261126"
    kept = changed(data, retain="devices")
    assert (kept.DateOfLastCalibration, kept.StudyDate, kept.DeviceSerialNumber) == (
        "20261126",
        "",
        "D-7",
    )


@pytest.mark.parametrize("value", [b"2026", b"26.11.26", b"20261399", b"00010101", b"Levi    "])
def test_a_date_that_cannot_be_shifted_is_an_error_without_it(value: bytes) -> None:
    data = with_elements().replace(b"20261126", value.ljust(8))
    text = failure(data, retain="modified-dates")
    assert text == "(0008,0020) StudyDate has a value that cannot be shifted"


def test_an_element_outside_of_the_profile_is_removed_if_it_may_name_a_person() -> None:
    removed = (
        element(0x00540000, "UL", bytes(4)),
        element(0x00547776, "UN", b"Levi"),
        element(0x00547777, "LO", b"Levi"),
        element(0x50000010, "US", b"Levi"),
        element(0x60003000, "OW", b"Levi"),
        element(0x70010010, "LO", b"Levi"),
        element(0x70011000, "SQ", ITEM + element(0x00100010, "PN", b"Levi") + ITEM_END),
    )
    output, receipt = ran(with_elements(*removed))
    assert b"Levi" not in output
    assert receipt["others"]["removed"] == {
        "curves and overlays": 2, "group lengths": 1, "private": 2, "unknown": 2,
    }  # fmt: skip
    kept, receipt = ran(encoded(sample(EvaluatorName="Levi", SegmentDescription="Levi")))
    assert b"Levi" not in kept
    assert receipt["others"]["removed"] == {
        "text, names and dates that the profile does not list": 2
    }
    icon = Dataset()
    icon.PixelData = b"Levi"
    icon["PixelData"].VR = "OW"
    kept, receipt = ran(encoded(sample(ReferencedImageSequence=[icon])))
    assert receipt["others"]["removed"] == {"pixels in sequences": 1}


@pytest.mark.parametrize(
    "keyword",
    [
        "PatientBirthDateInAlternativeCalendar", "PatientDeathDateInAlternativeCalendar",
        "BreedRegistrationNumber", "NTPSourceAddress", "ContactDisplayName", "OwnerID",
        "BoardingPassID", "ItineraryID",
    ],
)  # fmt: skip
@pytest.mark.parametrize("retain", ["", "full-dates,uids", "patient-characteristics"])
def test_short_texts_that_name_a_person_are_removed(keyword: str, retain: str) -> None:
    inner = Dataset()
    setattr(inner, keyword, "Levi")
    data = encoded(sample(**{keyword: "Levi", "ReferencedImageSequence": [inner]}))
    output, receipt = ran(data, **({"retain": retain} if retain else {}))
    assert b"Levi" not in output
    assert receipt["others"]["removed"] == {
        "text, names and dates that the profile does not list": 2
    }


def test_encrypted_attributes_of_before_are_removed() -> None:
    inner = Dataset()
    inner.EncryptedContent = b"Levi"
    output, _ = ran(encoded(sample(EncryptedAttributesSequence=[inner])))
    assert b"Levi" not in output


@pytest.mark.parametrize("has_length", [True, False])
def test_an_attribute_of_the_standard_with_vr_un_is_read_as_the_standard_says(
    has_length: bool,
) -> None:
    # The content of such a sequence has no VRs.
    inner = b"".join(
        struct.pack("<HHI", tag >> 16, tag & 0xFFFF, len(value)) + value
        for tag, value in ((0x00081155, b"1.2.3\0"), (0x00100010, b"Levi"), (0x00540011, b"ab"))
    )
    items = ITEM + inner + ITEM_END + (b"" if has_length else SEQUENCE_END)
    sequence = element(0x00540016, "UN", items, None if has_length else 0xFFFFFFFF)
    output, receipt = ran(with_elements(element(0x00540011, "UN", b"ab"), sequence))
    assert b"Levi" not in output
    found = plain_dicom.read(output)
    assert found.NumberOfEnergyWindows == struct.unpack("<H", b"ab")[0]
    item = found.RadiopharmaceuticalInformationSequence[0]
    assert item.ReferencedSOPInstanceUID == plain_dicom.uid("1.2.3", KEY)
    assert item.NumberOfEnergyWindows == found.NumberOfEnergyWindows
    assert receipt["others"]["removed"] == {}


def test_an_attribute_with_vr_un_in_big_endian_is_removed() -> None:
    data = encoded(sample(), BIG)
    place = data.index(b"\x7f\xe0\x00\x10")
    inner = struct.pack("<HHI", 0x0010, 0x0010, 4) + b"Levi"
    un = struct.pack(">HH2sHI", 0x0054, 0x0016, b"UN", 0, 0xFFFFFFFF)
    un += ITEM + inner + ITEM_END + SEQUENCE_END
    output, receipt = ran(data[:place] + un + data[place:])
    assert b"Levi" not in output
    assert receipt["others"]["removed"] == {"VR UN": 1}


def test_a_long_value_of_vr_un_stays_un() -> None:
    value = b"1\\" * 40_000
    output, _ = ran(with_elements(element(0x00540060, "UN", value)))
    assert element(0x00540060, "UN", value) in output


def test_elements_after_the_pixels_are_changed_too() -> None:
    signature = element(0xFFFAFFFA, "SQ", ITEM + element(0x04000100, "UI", b"1.2.3\0") + ITEM_END)
    padding = element(0xFFFCFFFC, "OB", b"Levi")
    output, receipt = ran(with_elements(after=signature + padding))
    assert output.endswith(PIXELS)
    assert receipt["attributes"]["(FFFA,FFFA) DigitalSignaturesSequence"]["count"] == 1


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sop_class", "attributes", "reason"),
    [
        ("1.2.840.10008.5.1.4.1.1.7", {}, "secondary capture"),
        ("1.2.840.10008.5.1.4.1.1.7.4", {}, "secondary capture"),
        ("1.2.840.10008.5.1.4.1.1.6.1", {}, "ultrasound"),
        ("1.2.840.10008.5.1.4.1.1.77.1.4", {}, "photographs"),
        (CT, {"BurnedInAnnotation": "YES"}, "BurnedInAnnotation"),
        (CT, {"BurnedInAnnotation": "perhaps"}, "BurnedInAnnotation"),
        (CT, {"RecognizableVisualFeatures": "YES"}, "RecognizableVisualFeatures"),
        (CT, {"ConversionType": "SD"}, "ConversionType"),
        (CT, {"ImageType": ["DERIVED", "SECONDARY", "SCREEN SAVE"]}, "ImageType"),
    ],
)
def test_pixels_that_may_show_text_need_a_statement(
    sop_class: str, attributes: dict[str, Any], reason: str
) -> None:
    data = encoded(sample(SOPClassUID=sop_class, **attributes))
    text = failure(data)
    assert reason in text
    assert "pixels-are-clean=true" in text
    found = changed(data, pixels_are_clean="true")
    assert found.PixelData == PIXELS
    assert found.get("BurnedInAnnotation", "NO") == "NO"


@pytest.mark.parametrize(
    ("sop_class", "reason"),
    [
        ("1.2.840.10008.5.1.4.1.1.88.11", "a structured report"),
        ("1.2.840.10008.5.1.4.1.1.104.1", "an encapsulated document"),
        ("1.2.840.10008.5.1.4.1.1.11.1", "a presentation state"),
        ("1.2.840.10008.5.1.4.1.1.9.4.1", "voices"),
        ("1.2.840.10008.1.3.10", "a DICOMDIR"),
        ("1.2.840.10008.1.1", "is not supported"),
        ("1.2.3.4", "private or unknown"),
    ],
)
def test_objects_whose_content_is_text_are_refused(sop_class: str, reason: str) -> None:
    for clean in ("true", "false"):
        assert reason in failure(encoded(sample(SOPClassUID=sop_class)), pixels_are_clean=clean)


def test_faults_of_parameters_are_one_error() -> None:
    text = failure(encoded(sample()), retain="uids,names,safe-private,full-dates,modified-dates")
    assert "'names': want uids, devices" in text
    assert "safe-private is not supported" in text
    assert "want one of them" in text
    with pytest.raises(ERROR, match="the secret has 31 bytes"):
        ran(encoded(sample()), key=bytes(31))


def test_an_image_without_the_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(sample())
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(shared("packages").PackageError, match=r"dicom needs the .* pydicom,"):
        ran(data)


# --- hostile objects ------------------------------------------------------------------------------


def test_a_cut_object_is_an_error_at_each_byte() -> None:
    data = encoded(sample())
    pixels = data.index(b"\xe0\x7f\x10\x00")
    # Also between two elements, where the rest is a valid data set.
    for size in range(pixels + 12):
        text = failure(data[:size])
        assert "the object is cut" in text or text.startswith("SOP")
    for size in range(pixels + 12, len(data)):
        with pytest.raises(ERROR, match="the object is cut"):
            ran(data[:size])


@pytest.mark.parametrize("syntax", [JPEG, DEFLATED])
def test_a_cut_object_of_other_syntaxes_is_an_error(syntax: str) -> None:
    data = encoded(sample(), syntax)
    for size in range(len(data) - 2):
        with pytest.raises(ERROR):
            ran(data[:size])


def test_a_text_with_an_attribute_within_is_an_error() -> None:
    data = encoded(sample())
    text = data.index(b"\x08\x00\x60\x00CS\x02\x00CT")
    name = data.index(b"\x10\x00\x10\x00PN")
    end = name + 8 + data[name + 6]
    wrong = bytearray(data)
    wrong[text + 6 : text + 8] = struct.pack("<H", end - text - 8)
    assert "(0008,0060) Modality has control characters" in failure(bytes(wrong))


def test_a_number_with_an_attribute_within_is_an_error() -> None:
    within = element(0x00540021, "US", b"ab") + element(0x00540200, "DS", b"1 ")
    wrong = element(0x00540011, "US", b"ab" + within, 2 + len(within))
    reason = "(0054,0011) NumberOfEnergyWindows has"
    assert f"{reason} 22 bytes, and the standard has 1 values of US" in failure(
        with_elements(wrong)
    )
    implicit = encoded(sample(NumberOfEnergyWindows=1, NumberOfDetectors=2), IMPLICIT)
    start = implicit.index(b"\x54\x00\x11\x00\x02\0\0\0")
    changed_ = implicit[: start + 4] + struct.pack("<I", 12) + implicit[start + 8 :]
    assert f"{reason} 12 bytes" in failure(changed_)


@pytest.mark.parametrize("vr", NUMBER_BYTES)
def test_numbers_have_as_many_values_as_the_standard_says(vr: str) -> None:
    size, seen = NUMBER_BYTES[vr], set()
    for tag, (vrs, multiplicity, _, is_retired, _) in DicomDictionary.items():
        is_kept = not is_retired and 0x0054 < tag >> 16 < 0x5000 and tag not in plain_dicom.TABLE
        if vrs != vr or multiplicity in seen or not is_kept:
            continue
        seen.add(multiplicity)
        for count in (0, 1, 2, 3, 4, 6, 9, 99, 100):
            data = with_elements(element(tag, vr, bytes(size * count)))
            if not count or fits(multiplicity, count):
                found = changed(data)[tag]
                assert count == found.VM
            else:
                assert f"has {size * count} bytes, and the standard" in failure(data)
        for extra in range(1, size):
            length = size * 6 + extra
            assert f"has {length} bytes" in failure(with_elements(element(tag, vr, bytes(length))))
    assert seen


def fits(multiplicity: str, count: int) -> bool:
    """A slow reference for the count of values."""
    least, *most = multiplicity.split("-")
    if not most:
        return count == int(least)
    if most[0].endswith("n"):
        return count in range(int(least), 1000, int(most[0][:-1] or "1"))
    return int(least) <= count <= int(most[0])


@given(data=st.data(), syntax=st.sampled_from([IMPLICIT, EXPLICIT, BIG, DEFLATED, JPEG]))
def test_changed_bytes_are_no_other_error(data: st.DataObject, syntax: str) -> None:
    reference = Dataset()
    reference.ReferencedSOPClassUID, reference.ReferencedSOPInstanceUID = CT, "1.2.3.4.1"
    body = bytearray(encoded(sample(ReferencedImageSequence=[reference] * 2), syntax))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        output, _ = ran(bytes(body))
    except ERROR as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert "Levi" not in str(error)  # noqa: PT017
        return
    assert b"Levi" not in output


NEST = element(0x00540410, "SQ", b"", 0xFFFFFFFF) + ITEM


@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        ([NEST * 10_000], "within more than 64 sequences"),
        ([element(0x00540410, "SQ", ITEM)], "does not fit"),
        ([element(0x00540410, "SQ", element(0x00540010, "US", b"ab"))], "than an item"),
        ([element(0x00540410, "SQ", ITEM + element(0x00540010, "US", b"ab", 9) + ITEM_END)], "fit"),
        ([element(0x00540410, "SQ", ITEM + ITEM_END, 12)], "does not fit"),
        ([element(0x00540410, "SQ", ITEM + SEQUENCE_END, 0xFFFFFFFF)], "delimiter"),
        ([element(0x00540010, "OB", b"", 0xFFFFFFFF)], "has no length"),
        ([element(0x00540010, "OB", b"", 0xFFFFFFF0)], "more than 64 MiB"),
        ([element(0x00540010, "OB", b"", 1 << 20)], "the object is cut"),
        ([element(0x00540011, "US", b"ab"), element(0x00540010, "US", b"ab")], "must ascend"),
        ([element(0x00100010, "PN", b"Levi")], "must ascend"),
        ([element(0x00540011, "US", b"ab"), element(0x00540011, "US", b"ab")], "must ascend"),
        ([element(0x00540011, "XX", b"ab")], "VR that does not exist"),
        ([element(0x00540011, "LO", b"ab")], "has the VR LO, and the standard has US"),
        ([element(0x00540410, "LO", b"ab")], "has the VR LO, and the standard has SQ"),
        ([element(0x00540011, "SQ", b"")], "has the VR SQ, and the standard has US"),
        ([ITEM_END], "delimiter"),
        ([element(0x7FE00008, "OF", bytes(4))], "two places"),
    ],
    ids=str,
)
def test_a_wrong_structure_is_one_error(elements: list[bytes], reason: str) -> None:
    data = with_elements(*elements)
    if reason == "two places":
        with pytest.raises(ERROR, match=reason):
            ran(data)
        return
    text = failure(data)
    assert reason in text
    assert "\n" not in text


@pytest.mark.parametrize("syntax", [JPEG, EXPLICIT])
def test_pixels_of_another_form_than_the_syntax_has_are_an_error(syntax: str) -> None:
    data = encoded(sample(), syntax)
    old = element(
        0x7FE00010,
        "OB" if syntax == JPEG else "OW",
        b"",
        0xFFFFFFFF if syntax == JPEG else len(PIXELS),
    )
    new = element(0x7FE00010, "OB", b"", 8 if syntax == JPEG else 0xFFFFFFFF)
    assert "unlike objects with this transfer syntax" in failure(data.replace(old, new))


def test_the_number_of_elements_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    items = (ITEM + ITEM_END) * 1000 + SEQUENCE_END
    data = with_elements(element(0x00540410, "SQ", b"", 0xFFFFFFFF) + items)
    output, _ = ran(data)
    assert len(plain_dicom.read(output)[0x00540410].value) == 1000
    monkeypatch.setattr(ELEMENTS, "MOST_ELEMENTS", 1000)
    assert "more than 1000 elements and items" in failure(data)


@pytest.mark.parametrize("after", [b"Levi", bytes(8), element(0x00100010, "PN", b"Levi"), PIXELS])
def test_data_after_the_pixels_are_an_error(after: bytes) -> None:
    with pytest.raises(ERROR):
        ran(with_elements(after=after))


@pytest.mark.parametrize(
    ("syntax", "reason"),
    [
        ("1.2.840.10008.1.2.4.94", "JPIP Referenced is not supported"),
        (CT, "none of"),
        ("1.2", "none"),
    ],
)
def test_other_transfer_syntaxes_are_refused(syntax: str, reason: str) -> None:
    data = encoded(sample(), EXPLICIT)
    padded = syntax + "\0" * (len(syntax) % 2)
    old = element(0x00020010, "UI", EXPLICIT.encode() + b"\0")
    new = element(0x00020010, "UI", padded.encode())
    (length,) = struct.unpack_from("<I", data, 140)
    changed_meta = struct.pack("<I", length + len(new) - len(old))
    assert reason in failure((data[:140] + changed_meta + data[144:]).replace(old, new))


def test_a_deflated_bomb_is_an_error_within_the_limit(tmp_path: Path) -> None:
    plain = encoded(sample())
    place = plain.index(b"\x08\x00\x16\x00")
    engine = zlib.compressobj(9, wbits=-15)
    bomb = engine.compress(plain[place : plain.index(b"\x28\x00\x10\x00")])
    bomb += engine.compress(element(0x00240001, "OB", b"", 0x7FFFFFF0))
    bomb += engine.flush(zlib.Z_FULL_FLUSH)
    # After a full flush, compressed zeros do not depend on the ones before them.
    zeros = engine.compress(bytes(MEBIBYTE)) + engine.flush(zlib.Z_FULL_FLUSH)
    bomb += zeros * 1000 + engine.flush()
    data = encoded(sample(), DEFLATED)
    start = data[: 144 + struct.unpack_from("<I", data, 140)[0]]
    assert len(bomb) < 2 * MEBIBYTE
    assert "more than 64 MiB" in failure(start + bomb)
    rest = encoded(sample(), DEFLATED) + b"Levi" * 4
    with pytest.raises(ERROR, match="after the end of the deflated"):
        ran(rest)


@pytest.mark.parametrize("megabytes", [500])
def test_the_memory_of_a_large_object_is_bounded(tmp_path: Path, megabytes: int) -> None:
    data = encoded(sample(), pixels=None)
    size = megabytes * MEBIBYTE
    (tmp_path / "head").write_bytes(data + element(0x7FE00010, "OW", b"", size))
    code = (
        "import io, re, sys\n"
        "from pathlib import Path\n"
        "from tests.library.test_deidentify_dicom import Output, STORLET, account_secrets\n"
        "class Large(io.BytesIO):\n"
        "    left = int(sys.argv[2])\n"
        "    def read(self, size):\n"
        "        if data := super().read(size): return data\n"
        "        size = min(size, self.left); self.left -= size; return bytes(size)\n"
        "class Sink(Output):\n"
        "    count = 0\n"
        "    def write(self, data): self.count += len(data)\n"
        "def peak():\n"
        "    text = Path('/proc/self/status').read_text()\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', text)[1])\n"
        "account_secrets.begin({'k': bytes(32)})\n"
        "before, sink = peak(), Sink()\n"
        "STORLET.module.DeidentifyDicom(None)([Large(Path(sys.argv[1]).read_bytes())], [sink],\n"
        "    STORLET.values({'key': 'k'}))\n"
        "assert sink.count > int(sys.argv[2])\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "head"), str(size)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert int(done.stdout) < 24 * 1024
