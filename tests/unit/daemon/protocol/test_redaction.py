"""Values of secrets are removed in each form in which programs print them."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_daemon.protocol.redaction import HIDDEN, Redaction

VALUE = b"pass\xffword+/'\"\n\\end"
FORMS = [
    VALUE,
    VALUE.hex().encode(),
    VALUE.hex().upper().encode(),
    base64.b64encode(VALUE),
    base64.urlsafe_b64encode(VALUE),
    repr(VALUE).encode(),
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_a_value_is_found_in_each_printed_form(form: bytes) -> None:
    found = Redaction([VALUE]).data(b"before " + form + b" after")
    assert form.strip(b"b'\"=") not in found
    assert HIDDEN.encode() in found
    assert (found[:7], found[-6:]) == (b"before ", b" after")


def test_a_text_is_found_as_literal_of_python_and_json() -> None:
    text = "q\u00fcote'\n\t\u05d0 end"
    redaction = Redaction([text.encode()])
    for form in (text, repr(text), json.dumps(text), json.dumps(text, ensure_ascii=False)):
        assert HIDDEN in redaction.text(f"before {form} after"), form


def test_a_value_from_a_file_is_found_without_its_line_feed() -> None:
    assert Redaction([b"from-a-file\n"]).text("token=from-a-file;") == f"token={HIDDEN};"


def test_a_value_that_is_a_part_of_another_does_not_leave_the_rest() -> None:
    redaction = Redaction([b"shared-part", b"shared-part-and-more"])
    assert redaction.text("a shared-part-and-more b shared-part c") == f"a {HIDDEN} b {HIDDEN} c"


def test_without_values_nothing_changes() -> None:
    redaction = Redaction([])
    assert not redaction
    assert redaction.text("\udc80 any text") == "\udc80 any text"
    assert redaction.cut_data(b"any data") == b"any data"


@given(st.binary(min_size=8, max_size=64), st.binary(max_size=20), st.integers(8, 64))
def test_the_begin_of_a_value_at_the_end_of_cut_data_is_found(
    value: bytes, before: bytes, length: int
) -> None:
    found = Redaction([value]).cut_data(before + b"|" + value[:length])
    assert found.endswith(HIDDEN.encode())


@given(st.binary(min_size=8, max_size=64), st.binary(max_size=50))
def test_no_value_is_left(value: bytes, noise: bytes) -> None:
    found = Redaction([value]).data(noise + value + noise)
    assert value not in found or value in HIDDEN.encode() * 2 + noise * 2
