"""Frames of the storlet: complete ones are read, all others are errors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.s3select import frames
from storlet_middleware.s3select.fault_codes import SelectFault

COUNTS = struct.pack(">QQ", 5, 7)


def frame(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">cI", kind, len(data)) + data


WHOLE = frame(b"R", b"some") + frame(b"P", COUNTS) + frame(b"R", b"") + frame(b"S", COUNTS)
READ = [frames.Records(b"some"), frames.Progress(5, 7), frames.Records(b""), frames.Stats(5, 7)]


@given(st.integers(1, len(WHOLE)))
def test_frames_are_read_from_chunks_of_any_size(size: int) -> None:
    chunks = [WHOLE[at : at + size] for at in range(0, len(WHOLE), size)]
    assert list(frames.read(chunks)) == READ


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_output_is_an_error(size: int) -> None:
    with pytest.raises(SelectFault) as caught:
        list(frames.read([WHOLE[:size]]))
    assert caught.value.code == "InternalError"


def test_the_error_of_a_query_has_its_code() -> None:
    fault = frame(b"E", json.dumps({"code": "CastFailed", "text": "why"}).encode())
    chunks = iter([frame(b"R", b"x") + fault, b"more"])
    found = frames.read(chunks)
    assert next(found) == frames.Records(b"x")
    with pytest.raises(SelectFault, match="why") as caught:
        next(found)
    assert caught.value.code == "CastFailed"
    assert next(chunks, None) is None, "the run is abandoned"


@pytest.mark.parametrize(
    "data",
    [
        frame(b"X", b""),
        frame(b"S", b"short"),
        struct.pack(">cI", b"R", 1 << 30),
        frame(b"E", b"no JSON"),
        frame(b"E", b"[" * 60_000),
        frame(b"E", b'{"code": "AccessDenied", "text": "x"}'),
        WHOLE + b"x",
    ],
)
def test_hostile_output_is_a_defect(data: bytes) -> None:
    with pytest.raises(SelectFault) as caught:
        list(frames.read([data]))
    assert caught.value.code == "InternalError"


def test_output_after_the_last_frame_is_an_error() -> None:
    with pytest.raises(SelectFault):
        list(frames.read([WHOLE, b"x"]))


def test_a_run_that_fails_at_its_end_fails() -> None:
    def chunks() -> Iterator[bytes]:
        yield WHOLE
        raise OSError("the end of the run")

    with pytest.raises(OSError, match="the end"):
        list(frames.read(chunks()))
