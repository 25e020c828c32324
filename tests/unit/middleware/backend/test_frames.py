"""Frames: encoding, decoding and padding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storlet_middleware.backend import frames

START = {"metadata": {"k": "v"}, "size": 9, "ranges": [[2, 4]], "sandbox_seconds": 0.5}


OK = {"outcome": "ok", "usage": {"cpu_seconds": 1}, "bytes_in": 3}


def decode(pieces: list[bytes]) -> list[tuple[int, Any]]:
    decoder = frames.Decoder()
    events: list[tuple[int, Any]] = []
    for piece in pieces:
        for kind, payload in decoder.feed(piece):
            if events and events[-1][0] == kind and isinstance(payload, bytes):
                events[-1] = (kind, events[-1][1] + payload)
            else:
                events.append((kind, payload))
    assert decoder.is_done
    return events


def test_every_split_of_the_bytes_decodes_to_the_same_frames() -> None:
    encoder = frames.Encoder(64)
    body = (
        encoder.pad()
        + encoder.message(frames.START, START)
        + encoder.data(b"")
        + encoder.data(b"abc")
    )
    body += encoder.pad() + encoder.data(b"log", frames.LOG) + encoder.message(frames.DONE, OK)
    whole = decode([body])
    assert [kind for kind, _ in whole] == [frames.START, frames.DATA, frames.LOG, frames.DONE]
    for at in range(len(body) + 1):
        assert decode([body[:at], body[at:]]) == whole
    assert [
        event
        for event in decode([body[at : at + 1] for at in range(len(body))])
        if event[0] == frames.DONE
    ]


def test_bytes_beyond_the_longest_frame_take_several() -> None:
    """A log may be longer: its limit is the operator's."""
    log = bytes(range(256)) * (frames.MAX_FRAME // 256) + b"the end"
    encoder = frames.Encoder(65536)
    body = encoder.data(log, frames.LOG) + encoder.pad()
    assert len(body) % 65536 == 0
    assert decode([body + encoder.message(frames.DONE, OK)])[0] == (frames.LOG, log)


@pytest.mark.parametrize("pending", [0, 1, 5, 58, 59, 60, 63, 64, 65, 1000])
def test_padding_ends_where_a_chunk_of_the_proxy_ends(pending: int) -> None:
    encoder = frames.Encoder(64)
    sent = len(encoder.data(bytes(pending)))
    sent += len(encoder.pad())
    assert sent % 64 == 0
    assert encoder.is_flushed
    assert len(encoder.pad()) == 64


def test_messages_are_ascii_for_any_text() -> None:
    frame = frames.Encoder(64).message(frames.DONE, {"message": "größe\u2028"})
    assert json.loads(frame[5:].decode("ascii")) == {"message": "größe\u2028"}


def test_the_decoder_reads_what_the_encoder_writes_and_no_other_version() -> None:
    assert frames.can_decode(frames.VERSION)
    assert [frames.can_decode(text) for text in ("2", "", "01", "1.0", "1 ")] == [False] * 5
