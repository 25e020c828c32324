"""Answers that are sent unchanged."""

from __future__ import annotations

import pytest
from swift.common.header_key_dict import HeaderKeyDict
from swift.common.swob import Request

from storlet_middleware.wsgi.answer import Answer
from tests.unit.middleware.support import Body

HEADERS = [("Etag", "one"), ("X-A", "1"), ("x-a", "2"), ("Content-Length", "9")]


def test_status_headers_and_body_are_sent_unchanged() -> None:
    """swob would correct the length, merge the headers and quote the ETag."""
    body = Body([b"a", b"b"])
    sent = Request.blank("/", headers={"Range": "bytes=0-0"}).call_application(
        Answer("299 Odd", HEADERS, body)
    )
    assert tuple(sent) == ("299 Odd", HEADERS, body)
    assert not body.is_read


@pytest.mark.parametrize(
    ("name", "value"), [("etag", "one"), ("x-a", "1"), ("content-length", "9"), ("x-none", "")]
)
def test_the_first_header_of_a_name_counts_in_any_case(name: str, value: str) -> None:
    assert Answer("200 OK", HEADERS, []).header(name) == value


@pytest.mark.parametrize(
    "headers", [[], HEADERS, [("x-object-meta-gr\u00fcn", "a"), ("ETAG", "b"), ("x-é.9_b-C", "c")]]
)
def test_all_headers_are_those_of_swifts_own_dictionary(headers: list[tuple[str, str]]) -> None:
    found = Answer("200 OK", headers, []).header_dict()
    assert found == HeaderKeyDict(headers)
    assert type(found) is HeaderKeyDict
