"""Headers that Swift's HTTP client can send."""

from __future__ import annotations

import pytest
from eventlet import wsgi
from hypothesis import example, given
from hypothesis import strategies as st
from swift.common import constraints
from swift.common.bufferedhttp import BufferedHTTPConnection

from storlet_middleware.errors import BadRequest
from storlet_middleware.wsgi import sent_headers
from storlet_middleware.wsgi.sent_headers import require_sendable, require_short_line


@given(name=st.text(), value=st.text())
@example(name="X-A", value="a\r\nX-B: c")
@example(name="X-A", value="\u6f22")
@example(name="\u00e9", value="")
@example(name="", value="")
def test_a_header_that_the_client_cannot_send_is_refused(name: str, value: str) -> None:
    connection = BufferedHTTPConnection("localhost")
    connection.putrequest("PUT", "/")
    try:
        require_sendable({name: value})
    except BadRequest:
        return
    connection.putheader(name, value)


@pytest.mark.parametrize("value", ["", " a ", "\t", "\xc3\xa4", "\x85", "a" * 8000])
def test_other_values_are_sent(value: str) -> None:
    require_sendable({"X-Object-Meta-(a b)": value})


def test_all_faults_are_named() -> None:
    with pytest.raises(BadRequest, match=r"'X-A': .*'X-B': "):
        require_sendable({"X-A": "\n", "X-B": "\0", "X-C": "c"})


def test_a_line_that_swifts_servers_do_not_take_is_refused() -> None:
    require_sendable({"If-Match": "x" * 8000, "X-Storlet-Parameter-1": "x" * 50_000})
    with pytest.raises(BadRequest, match="If-Match"):
        require_sendable({"If-Match": "x" * 8192})
    require_short_line("/a/c", "prefix=" + "%C3" * 2048)
    with pytest.raises(BadRequest, match="too long together"):
        require_short_line("/a/c", "x" * 8000)


def test_swift_without_an_option_for_the_line_has_the_limit_of_eventlet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Swift 2.35 and 2.36."""
    monkeypatch.delattr(constraints, "MAX_REQUEST_LINE", raising=False)
    assert sent_headers._LINE_OF_EVENTLET == wsgi.MAX_REQUEST_LINE
    test_a_line_that_swifts_servers_do_not_take_is_refused()
