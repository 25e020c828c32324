"""Values of secrets are removed in each form in which programs print them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.parse

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
    VALUE.decode("latin-1").encode(),
    repr(VALUE.decode("latin-1")).encode(),
    json.dumps(VALUE.decode("latin-1")).encode(),
    urllib.parse.quote(VALUE).encode(),
    urllib.parse.quote(VALUE, safe="").encode(),
    urllib.parse.quote_plus(VALUE).encode(),
    str(list(VALUE)).strip("[]").encode(),
    b"112, 97, 115, 115, -1, 119, 111, 114, 100, 43, 47, 39, 34, 10, 92, 101, 110, 100",
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


@pytest.mark.parametrize("length", [16, 60, 199])
def test_the_start_of_a_form_is_found_without_its_end(length: int) -> None:
    value = bytes(range(48, 58)) * 10 + b"'" + bytes(range(65, 91)) * 10
    redaction = Redaction([value])
    encoded = base64.b64encode(value).decode().rstrip("=")
    for form in (value.decode(), repr(value)[2:-1], value.hex(), encoded):
        assert redaction.text(f"{form[:length]}... of {form}") == f"{HIDDEN}... of {HIDDEN}"


def test_an_error_of_python_has_no_part_of_a_long_value() -> None:
    value = "correct-horse-" * 40
    with pytest.raises(ValueError, match="correct-horse") as caught:
        int(value)
    assert "horse" not in Redaction([value.encode()]).text(str(caught.value))


def test_the_start_of_a_value_that_repeats_its_own_begin_is_found() -> None:
    value = b"0123456789abcdef" * 2 + b"the rest of the value"
    assert Redaction([value]).data(b"<" + value[:45] + b">") == b"<" + HIDDEN.encode() + b">"


def test_each_line_of_a_value_is_found() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MC4CAQAwBQYDK2VwBCIE", "  aGFsZiBvZiBhIGtleQ== "]
    redaction = Redaction(["\r\n".join(lines).encode()])
    for line in lines:
        assert redaction.text(f"line: {line.strip()}.") == f"line: {HIDDEN}.", line
    assert redaction.text("-----BEGIN") == "-----BEGIN"


def test_without_values_nothing_changes() -> None:
    redaction = Redaction([])
    assert not redaction
    assert redaction.text("\udc80 any text") == "\udc80 any text"
    assert redaction.cut_data(b"any data") == b"any data"


@given(st.binary(min_size=8, max_size=64), st.binary(max_size=20), st.integers(8, 64))
def test_the_start_of_a_value_at_the_end_of_cut_data_is_found(
    value: bytes, before: bytes, length: int
) -> None:
    found = Redaction([value]).cut_data(before + b"|" + value[:length])
    assert found.endswith(HIDDEN.encode())


@given(st.binary(min_size=8, max_size=64), st.binary(max_size=50))
def test_no_value_is_left(value: bytes, noise: bytes) -> None:
    found = Redaction([value]).data(noise + value + noise)
    assert value not in found or value in HIDDEN.encode() * 2 + noise * 2


def test_all_bytes_are_found_as_urls_quote_them() -> None:
    value = bytes(range(256))
    for form in (
        urllib.parse.quote(value),
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
    ):
        assert Redaction([value]).text(f"before {form} after") == f"before {HIDDEN} after"


def test_no_module_is_loaded_for_a_text() -> None:
    """A storlet that has failed may have left no memory and no descriptors, or have a module of
    that name.
    """
    code = """
import sys
from storlet_daemon.protocol.redaction import Redaction
before = {*sys.modules}
Redaction([b"a value of a secret"]).text("x")
print({*sys.modules} - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
