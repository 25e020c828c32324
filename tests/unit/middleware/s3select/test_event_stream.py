"""Messages of the event stream, read by the parser of botocore."""

from __future__ import annotations

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.s3select import event_stream


def decoded(*messages: bytes) -> list[tuple[dict[str, str], bytes]]:
    buffer = EventStreamBuffer()
    for message in messages:
        buffer.add_data(message)
    return [(event.headers, event.payload) for event in buffer]


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
    assert payload == b""
    assert headers[":message-type"] == "error"
    assert headers[":error-code"] == "CastFailed"
    assert headers[":error-message"] == "é" * 2048


def test_each_changed_byte_is_seen() -> None:
    message = bytearray(event_stream.records(b"data"))
    for at in (0, 5, 9, 20, len(message) - 6, len(message) - 1):
        changed = bytearray(message)
        changed[at] ^= 1
        with pytest.raises((ChecksumMismatch, ValueError)):
            decoded(bytes(changed))
