"""Metadata that no output can have."""

from __future__ import annotations

import pytest

from storlet_daemon.author.output_metadata import fault_of

CONTROL = "the storlet's metadata has a control character"


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("colour", "red, or 100% blue", ""),
        ("Größe_1.x", "zwölf: 12", ""),
        ("a", "", ""),
        ("a", "b\nc", CONTROL),
        ("a", "b\x7f", CONTROL),
        ("a\x00", "b", CONTROL),
        ("a:b", "c", "the storlet's metadata has a key that no header can have: 'a:b'"),
        ("a b", "c", "the storlet's metadata has a key that no header can have: 'a b'"),
        ("a\u00a0", "c", "the storlet's metadata has a key that no header can have: 'a\\xa0'"),
        ("", "c", "the storlet's metadata has a key that no header can have: ''"),
    ],
)
def test_a_value_that_a_header_cannot_carry_is_a_fault(key: str, value: str, fault: str) -> None:
    assert fault_of({key: value}) == fault
    assert fault_of({"good": "one", key: value}) == fault


def test_an_output_without_metadata_has_no_fault() -> None:
    assert fault_of({}) == ""
