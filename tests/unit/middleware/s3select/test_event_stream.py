"""Messages of the event stream, read by the parser of botocore."""

from __future__ import annotations

from unittest.mock import Mock

import lxml.etree
import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from botocore.exceptions import EventStreamError
from botocore.parsers import create_parser
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.s3select import event_stream


def decoded(*messages: bytes) -> list[tuple[dict[str, str], bytes]]:
    buffer = EventStreamBuffer()
    for message in messages:
        buffer.add_data(message)
    return [(event.headers, event.payload) for event in buffer]


def texts(document: bytes) -> dict[str, str]:
    """The elements of an error in XML."""
    root = lxml.etree.fromstring(document)
    assert root.tag == "Error"
    return {element.tag: element.text for element in root}


@given(
    headers=st.dictionaries(
        st.text(st.characters(codec="ascii"), min_size=1, max_size=20), st.text(max_size=40)
    ),
    payload=st.binary(max_size=200),
)
def test_a_message_has_its_headers_and_its_payload(headers: dict[str, str], payload: bytes) -> None:
    assert decoded(event_stream.message(headers, payload)) == [(headers, payload)]


def test_the_messages_of_a_result() -> None:
    found = decoded(
        event_stream.records(b"a,b\n"),
        event_stream.keep_alive(),
        event_stream.progress(1, 2, 3),
        event_stream.stats(4, 5, 6),
        event_stream.end(),
    )
    kinds = [headers[":event-type"] for headers, _ in found]
    assert kinds == ["Records", "Cont", "Progress", "Stats", "End"]
    assert {headers[":message-type"] for headers, _ in found} == {"event"}
    assert found[0][1] == b"a,b\n"
    assert b"<BytesScanned>4</BytesScanned><BytesProcessed>5</BytesProcessed>" in found[3][1]
    assert b"<BytesReturned>6</BytesReturned></Stats>" in found[3][1]


def test_an_error_has_its_code_and_a_bounded_text() -> None:
    ((headers, payload),) = decoded(event_stream.error("CastFailed", "é" * 5000))
    assert headers == {
        ":message-type": "error",
        ":error-code": "CastFailed",
        ":error-message": "é" * 2048,
    }
    assert texts(payload) == {"Code": "CastFailed", "Message": "é" * 2048}


@given(text=st.text(max_size=40))
def test_the_xml_of_an_error_can_be_read_with_any_text(text: str) -> None:
    ((_, payload),) = decoded(event_stream.error("CastFailed", text))
    assert texts(payload)["Code"] == "CastFailed"


def test_the_xml_of_an_error_has_its_text() -> None:
    ((headers, payload),) = decoded(event_stream.error("CastFailed", "<a>&lt;]]>\x00\ufffeé"))
    assert headers[":error-message"] == "<a>&lt;]]>\x00\ufffeé"
    assert texts(payload)["Message"] == "<a>&lt;]]>\ufffd\ufffdé"


@pytest.mark.parametrize("code", ["InternalError", "RequestTimeout", "SlowDown"])
def test_no_client_repeats_a_request_for_the_code_in_the_xml(code: str) -> None:
    ((headers, payload),) = decoded(event_stream.error(code, "the result is cut"))
    assert headers[":error-code"] == code
    assert texts(payload) == {"Message": f"{code}: the result is cut"}


def test_botocore_raises_an_error_with_its_code_and_its_text() -> None:
    answer = {
        "status_code": 200,
        "headers": {},
        "context": {"operation_name": "SelectObjectContent"},
        "body": Mock(stream=lambda: [event_stream.error("CastFailed", "no number: <x>")]),
    }
    operation = Session().get_service_model("s3").operation_model("SelectObjectContent")
    parsed = create_parser("rest-xml").parse(answer, operation.output_shape)
    with pytest.raises(EventStreamError) as caught:
        list(parsed["Payload"])
    assert caught.value.response["Error"] == {"Code": "CastFailed", "Message": "no number: <x>"}


def test_each_changed_byte_is_seen() -> None:
    message = bytearray(event_stream.records(b"data"))
    for at in (0, 5, 9, 20, len(message) - 6, len(message) - 1):
        changed = bytearray(message)
        changed[at] ^= 1
        with pytest.raises((ChecksumMismatch, ValueError)):
            decoded(bytes(changed))
