"""The output of a storlet: usage, and the framed answer of an object node."""

from __future__ import annotations

from typing import Any

import eventlet
import pytest

from storlet_middleware.backend import frames
from storlet_middleware.errors import StorletError, Unprocessable
from storlet_middleware.proxy.result import BrokenAnswer, RemoteResult
from tests.unit.middleware.support import Body

START = {"metadata": {"k": "v"}, "size": 9, "ranges": [[2, 4]], "sandbox_seconds": 0.5}


def answer(*parts: Any, start: Any = START, done: Any = None) -> bytes:
    encoder = frames.Encoder(65536)
    body = encoder.message(frames.START, start) if start else b""
    body += b"".join(encoder.data(part) for part in parts)
    return body + (encoder.message(frames.DONE, done) if done else b"")


OK = {"outcome": "ok", "usage": {"cpu_seconds": 1}, "bytes_in": 3}


def result_of(*pieces: bytes) -> tuple[RemoteResult, Body]:
    body = Body(pieces)

    class Answer:
        app_iter = body

    return RemoteResult(Answer()), body


def read(*pieces: bytes) -> bytes:
    result, _ = result_of(*pieces)
    result.first()
    return b"".join(result.chunks())


def test_a_complete_answer_has_data_metadata_range_and_usage() -> None:
    result, body = result_of(answer(b"abc", b"def", done=OK))
    result.first()
    assert result.metadata == {"k": "v"}
    assert b"".join(result.chunks()) == b"abcdef"
    assert (result.span, result.usage.for_log()) == (
        (2, 4, 9),
        "in=3 out=6 cpu=1.000000 peak-memory=0",
    )
    result.close()
    assert body.is_closed


def test_every_truncation_of_an_answer_is_broken_and_never_a_success() -> None:
    whole = answer(b"abc", done=OK)
    for end in range(len(whole)):
        with pytest.raises(BrokenAnswer):
            read(whole[:end])
    assert read(whole) == b"abc"


@pytest.mark.parametrize(
    "body",
    [
        b"HTTP/1.1 200 OK\r\n" * 10,
        answer(b"x", done=OK) + b"more",
        answer(b"x", start=None, done=OK),
        answer(start=None, done=OK),
        answer(done=OK)[:-1] + b"!",
        answer(start={"metadata": {}}, done=OK),
        answer(start={**START, "ranges": [["a", "b"]]}, done=OK),
        frames.Encoder(64).message(frames.START, START) * 2 + answer(start=None, done=OK),
        bytes([frames.START]) + b"\0\0\0\0",
        bytes([frames.START]) + b"\x7f\0\0\0" + b"x" * 100,
        bytes([frames.START, 0, 0, 0, 2]) + b"[]",
        bytes([9, 0, 0, 0, 1, 0]),
    ],
)
def test_garbage_is_broken_and_never_a_success(body: bytes) -> None:
    with pytest.raises(BrokenAnswer):
        read(body)


def test_a_done_with_an_error_raises_that_error_and_not_a_broken_answer() -> None:
    done = {"outcome": "error", **Unprocessable("no", detail="trace").to_message()}
    with pytest.raises(StorletError) as caught:
        read(answer(b"half", done=done))
    assert (caught.value.status, caught.value.code, caught.value.detail) == (
        422,
        "storlet.failed",
        "trace",
    )


@pytest.mark.parametrize(
    "done", [{"outcome": "fine"}, {}, {"outcome": "error"}, {"outcome": "error", "code": "x\r\ny"}]
)
def test_a_done_without_the_outcome_ok_is_never_a_success(done: dict[str, Any]) -> None:
    with pytest.raises(StorletError) as caught:
        read(answer(done={**done, "v": 1}))
    assert caught.value.status == 500
    assert "\n" not in caught.value.code


@pytest.mark.parametrize("error", [OSError("gone"), eventlet.Timeout(None)])
def test_a_body_that_raises_is_broken_also_for_swifts_timeouts(error: BaseException) -> None:
    def pieces() -> Any:
        yield answer(b"abc")
        raise error

    result, _ = result_of(*[])
    result, _body = RemoteResult(type("A", (), {"app_iter": pieces()})()), None
    result.first()
    with pytest.raises(BrokenAnswer):
        list(result.chunks())


def test_closing_before_reading_closes_the_body() -> None:
    result, body = result_of(answer(b"abc", done=OK))
    result.close()
    result.close()
    assert body.is_closed


def test_unknown_keys_of_messages_are_ignored() -> None:
    encoder = frames.Encoder(64)
    start = {"metadata": {}, "size": 5, "ranges": [], "sandbox_seconds": 0.0, "mood": "fine"}
    done = {
        "outcome": "ok",
        "bytes_in": 5,
        "carbon": {"grams": 1},
        "usage": {"cpu_seconds": 1, "x": 2},
    }
    body = [
        encoder.message(frames.START, start),
        encoder.data(b"x"),
        encoder.message(frames.DONE, done),
    ]
    result = RemoteResult(type("Answer", (), {"app_iter": iter(body)})())
    result.first()
    assert (b"".join(result.chunks()), result.has_ended()) == (b"x", True)
