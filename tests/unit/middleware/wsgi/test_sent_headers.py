"""Headers that Swift's HTTP client can send."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from swift.common.bufferedhttp import BufferedHTTPConnection

from storlet_middleware.errors import BadRequest
from storlet_middleware.wsgi.sent_headers import require_sendable


@given(name=st.text(), value=st.text())
@example(name="X-A", value="a\r\nX-B: c")
@example(name="X-A", value="\u6f22")
@example(name="\u00e9", value="")
@example(name="", value="")
def test_what_the_client_cannot_send_is_refused(name: str, value: str) -> None:
    connection = BufferedHTTPConnection("localhost")
    connection.putrequest("PUT", "/")
    try:
        require_sendable({name: value})
    except BadRequest:
        return
    connection.putheader(name, value)


@pytest.mark.parametrize("value", ["", " a ", "\t", "\xc3\xa4", "\x85", "a" * 9000])
def test_other_values_are_sent(value: str) -> None:
    require_sendable({"X-Object-Meta-(a b)": value})


def test_all_faults_are_named() -> None:
    with pytest.raises(BadRequest, match=r"'X-A': .*'X-B': "):
        require_sendable({"X-A": "\n", "X-B": "\0", "X-C": "c"})
