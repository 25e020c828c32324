"""New values of attributes: tokens, UIDs, dates and dummies.

Tokens, UIDs and the number of days of a shift are computed with HMAC-SHA-256 and a secret, so they
are equal in all objects of a patient or study, and cannot be computed without the secret.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import uuid

from dicom_dictionary import Dictionary
from dicom_meta import uid_of
from dicom_source import DicomError

LEAST_KEY_BYTES = 32
TOKEN_DIGITS = 32
#: Dates are shifted to the past, by at least a year and at most eleven.
LEAST_DAYS, DAYS = 366, 3653
SHIFT_PURPOSE = b"std:deidentify-dicom dates\0"
DAY = re.compile(rb"([0-9]{4})([0-9]{2})([0-9]{2})")
#: A time of day, with an offset from UTC after that of a DT.
TIME = re.compile(rb"(?:[0-9]{2}){0,3}(?:\.[0-9]{1,6})?")
REST = re.compile(rb"(?:(?:[0-9]{2}){1,3}(?:\.[0-9]{1,6})?)?(?:[+-][0-9]{4})?")
ZERO_DAY, TEXT = b"19000101", b"REMOVED"
DUMMIES = {
    "AS": b"000Y",
    "DA": ZERO_DAY,
    "DS": b"0",
    "DT": ZERO_DAY + b"000000",
    "IS": b"0",
    "TM": b"000000",
    "AT": bytes(4), "FD": bytes(8), "FL": bytes(4), "OB": bytes(2), "OD": bytes(8),
    "OF": bytes(4), "OL": bytes(4), "OV": bytes(8), "OW": bytes(2), "SL": bytes(4),
    "SS": bytes(2), "SV": bytes(8), "UL": bytes(4), "US": bytes(2), "UV": bytes(8),
}  # fmt: skip


class Values:
    """Makes new values with the secret of a run."""

    def __init__(self, key: bytes, dictionary: Dictionary) -> None:
        if len(key) < LEAST_KEY_BYTES:
            raise DicomError(
                f"key: the secret has {len(key)} bytes: want {LEAST_KEY_BYTES} or more"
            )
        self._key = key
        self._dictionary = dictionary
        self._days: dt.timedelta | None = None

    def token(self, value: bytes) -> bytes:
        """The token that ``hmac`` of std:deidentify has for the same text."""
        plain = value.strip(b"\0 ")
        return self._digest(plain).hex()[:TOKEN_DIGITS].encode() if plain else b""

    def uids(self, value: bytes) -> bytes:
        """UIDs in place of others; those of the standard itself stay."""
        return b"\\".join(self._uid(each) for each in value.split(b"\\"))

    def dummy(self, vr: str, value: bytes) -> bytes:
        """A value of the VR that is not empty."""
        if vr == "UI":
            return self.uids(value) if value.strip(b"\0 ") else self._uid(b"none")
        return DUMMIES.get(vr, TEXT)

    def begin_shift(self, patient: bytes) -> None:
        """The shift of a patient.

        :raises DicomError: the object does not say which patient it is of.
        """
        plain = patient.strip(b"\0 ")
        if not plain:
            raise DicomError(
                "retain=modified-dates: (0010,0020) PatientID has no value, from which the shift"
                " is computed"
            )
        number = int.from_bytes(self._digest(SHIFT_PURPOSE + plain)[:8], "big")
        self._days = dt.timedelta(days=LEAST_DAYS + number % DAYS)

    def shifted(self, vr: str, value: bytes) -> bytes:
        """Dates that are earlier; a time of day stays.

        :raises ValueError: a value has no day that could be shifted.
        """
        return b"\\".join(self._shifted(vr, each.strip(b"\0 ")) for each in value.split(b"\\"))

    def _shifted(self, vr: str, value: bytes) -> bytes:
        if not value:
            return value
        if vr == "TM":
            if not TIME.fullmatch(value):
                raise ValueError("no time")
            return value
        day = DAY.match(value)
        if day is None or self._days is None:
            raise ValueError("no day")
        rest = value[day.end() :]
        if not REST.fullmatch(rest) or (vr == "DA" and rest):
            raise ValueError("no date")
        new = dt.date(*map(int, day.groups())) - self._days
        return b"%04d%02d%02d" % (new.year, new.month, new.day) + rest

    def _uid(self, value: bytes) -> bytes:
        plain = value.strip(b"\0 ")
        if not plain or self._dictionary.uid(uid_of(plain))[1]:
            return plain
        # The form of a UUID, as the root 2.25 requires it.
        return b"2.25.%d" % uuid.UUID(bytes=self._digest(plain)[:16], version=4).int

    def _digest(self, value: bytes) -> bytes:
        return hmac.digest(self._key, value, hashlib.sha256)
