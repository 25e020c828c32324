"""WSGI strings and text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.common.swob import str_to_wsgi

from storlet_middleware.wsgi.strings import text, wsgi


@given(st.text(st.characters(codec="utf-8")))
def test_text_survives_the_way_through_wsgi(value: str) -> None:
    assert wsgi(value) == str_to_wsgi(value)
    assert text(wsgi(value)) == value


@pytest.mark.parametrize("value", ["\xff", "\xc3", "a\x80", "\xed\xa0\x80"])
def test_bytes_that_are_not_utf8_are_refused(value: str) -> None:
    with pytest.raises(UnicodeDecodeError):
        text(value)


def test_text_that_is_no_wsgi_string_is_refused() -> None:
    """Text that is decoded twice must not pass unnoticed."""
    with pytest.raises(UnicodeEncodeError):
        text("\u20ac")
