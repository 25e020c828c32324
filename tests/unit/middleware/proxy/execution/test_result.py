"""The output of a storlet: usage, and the framed answer of an object node."""

from __future__ import annotations

from typing import Any

import eventlet
import pytest

from storlet_middleware.backend import frames
from storlet_middleware.engine.log_pieces import LogPiece
from storlet_middleware.errors import StorletError, Unprocessable
from storlet_middleware.proxy.execution.result import BrokenAnswer, LocalResult, RemoteResult, Usage
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
    assert (result.span, result.usage.as_header()) == (
        (2, 4, 9),
        "cpu=1.000000;peak-memory=0;in=3;out=6",
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
        frames.Encoder(64).message(frames.PIECE, {"text": "x"}) + answer(done=OK),
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


@pytest.mark.parametrize(
    ("sandbox", "header", "known"),
    [
        ({}, "in=3;out=6", (None, None)),
        (
            {"cpu_seconds": 0.0125, "peak_memory_bytes": 4096},
            "cpu=0.012500;peak-memory=4096;in=3;out=6",
            (0.0125, 4096),
        ),
        ({"cpu_seconds": 1}, "cpu=1.000000;peak-memory=0;in=3;out=6", (1.0, 0)),
    ],
)
def test_unknown_usage_is_left_out(
    sandbox: dict[str, Any], header: str, known: tuple[float | None, int | None]
) -> None:
    usage = Usage(sandbox, 3, 6)
    assert usage.as_header() == header
    assert (usage.cpu_seconds, usage.peak_memory_bytes) == known


def test_a_result_has_ended_only_after_its_end_was_read() -> None:
    result, _ = result_of(answer(b"abc"), answer(b"", start=None, done=OK))
    result.first()
    assert (result.has_ended(), result.has_run) == (False, True)
    assert b"".join(result.chunks()) == b"abc"
    assert result.has_ended()


def test_a_result_without_output_has_metadata_and_no_chunks() -> None:
    result, _ = result_of(answer(done=OK))
    result.first()
    assert (result.metadata, result.has_ended(), list(result.chunks())) == ({"k": "v"}, True, [])


@pytest.mark.parametrize("ranges", [[], [[0, 1], [3, 4]]])
def test_only_a_single_range_has_a_span(ranges: list[list[int]]) -> None:
    result, _ = result_of(answer(b"abc", start={**START, "ranges": ranges}, done=OK))
    result.first()
    assert result.span is None


@pytest.mark.parametrize("has_run", [True, False])
def test_a_failure_before_the_start_reports_whether_anything_ran(has_run: bool) -> None:
    """Only an invocation that has not run may be repeated."""
    done = {"outcome": "error", **Unprocessable("no").to_message(), "has_run": has_run}
    result, _ = result_of(answer(start=None, done=done))
    with pytest.raises(Unprocessable):
        result.first()
    assert result.has_run is has_run


def test_an_object_node_that_stalls_is_a_fault_of_the_backend() -> None:
    result, _ = result_of(answer(b"abc"))
    assert result.stalled("no output for 60 s").code == "backend.failed"
    result.close()


def test_lines_of_the_log_are_reported_as_they_come() -> None:
    piece = frames.Encoder(64).message(frames.PIECE, {"text": "a\n", "skipped_bytes": 3})
    told: list[LogPiece] = []

    class Answer:
        app_iter = Body([piece, answer(b"abc", done=OK)])

    result = RemoteResult(Answer(), "", told.append)
    result.first()
    assert told == [LogPiece("a\n", 3)]
    assert (b"".join(result.chunks()), result.log) == (b"abc", b"")
    result.close()


class Output:
    """Nothing for two waits, then some bytes."""

    def __init__(self) -> None:
        self.waits = iter([False, True])
        self.reads = iter([None, b"x", b""])

    def first(self, wait: float) -> bool:
        return next(self.waits)

    def read(self, wait: float) -> bytes | None:
        return next(self.reads)


class Log:
    """A log with a new line at each look."""

    def __init__(self) -> None:
        self.count = 0

    def due_piece(self) -> LogPiece | None:
        self.count += 1
        return LogPiece(f"{self.count}\n")

    def last_piece(self) -> LogPiece | None:
        return LogPiece("last\n")

    def read(self) -> bytes:
        return b""


class Silent:
    """An invocation that is silent at first, and has a log."""

    def __init__(self) -> None:
        self.output, self.log = Output(), Log()
        self.metadata: dict[str, str] = {}

    def bytes_in(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


def test_an_invocation_of_this_process_reports_its_lines_while_it_is_silent() -> None:
    told: list[str] = []
    result = LocalResult(Silent(), None, 0.0, lambda piece: told.append(piece.text))  # type: ignore[arg-type]
    result.first()
    assert told == ["1\n"]
    assert b"".join(result.chunks()) == b"x"
    result.close()
    assert told == ["1\n", "2\n", "3\n", "4\n", "last\n"]
