"""Bodies that are always closed.  The inputs are tested with their readers
(``proxy/test_run.py``)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pytest

from storlet_middleware.errors import AccessDenied, BackendFailed, StorletError
from storlet_middleware.wsgi.bodies import ClientBody, ClosingIterator, GuardedBody, SourceAnswer
from tests.unit.middleware.support import Body


class Calls:
    """Counts the calls of ``on_close`` and notes whether the chunks were closed before."""

    def __init__(self, chunks: Body) -> None:
        self._chunks = chunks
        self.closed_before: list[bool] = []

    def __call__(self) -> None:
        self.closed_before.append(self._chunks.is_closed)


def closing() -> tuple[ClosingIterator, Calls]:
    chunks = Body([b"a", b"b"])
    calls = Calls(chunks)
    return ClosingIterator(chunks, calls), calls


def test_on_close_is_called_once_if_iteration_never_started() -> None:
    body, calls = closing()
    assert calls.closed_before == []
    body.close()
    body.close()
    assert calls.closed_before == [True]


def test_on_close_is_called_once_if_iteration_stops_half_way() -> None:
    body, calls = closing()
    assert next(iter(body)) == b"a"
    assert calls.closed_before == []
    body.close()
    body.close()
    assert calls.closed_before == [True]


def test_on_close_is_called_once_at_the_end_without_close() -> None:
    body, calls = closing()
    assert b"".join(body) == b"ab"
    assert calls.closed_before == [True]
    assert list(body) == []
    body.close()
    assert calls.closed_before == [True]


@pytest.mark.parametrize("error", [OSError("broken"), GeneratorExit(), KeyboardInterrupt()])
def test_on_close_is_called_once_if_the_chunks_raise(error: BaseException) -> None:
    calls: list[None] = []

    def chunks() -> Iterator[bytes]:
        yield b"a"
        raise error

    body = ClosingIterator(chunks(), lambda: calls.append(None))
    assert next(body) == b"a"
    with pytest.raises(type(error)):
        next(body)
    body.close()
    assert len(calls) == 1


def test_on_close_is_called_if_closing_the_chunks_raises() -> None:
    calls: list[None] = []

    class Broken(Body):
        def close(self) -> None:
            raise OSError("broken")

    body = ClosingIterator(Broken([b"a"]), lambda: calls.append(None))
    with pytest.raises(OSError, match="broken"):
        body.close()
    body.close()
    assert len(calls) == 1


def test_the_iterator_of_the_chunks_is_closed_as_well_as_the_chunks() -> None:
    events: list[str] = []

    class Chunks:
        def __iter__(self) -> Iterator[bytes]:
            try:
                yield b"a"
                yield b"b"
            finally:
                events.append("iterator")

        def close(self) -> None:
            events.append("chunks")

    body = ClosingIterator(Chunks(), lambda: events.append("on_close"))
    next(body)
    body.close()
    assert events == ["iterator", "chunks", "on_close"]


def test_on_close_may_be_given_for_chunks_without_close() -> None:
    calls: list[None] = []
    body = ClosingIterator([b"a", b"b"], lambda: calls.append(None))
    assert list(body) == [b"a", b"b"]
    body.close()
    assert len(calls) == 1


def test_the_length_of_a_chunked_body_is_ignored() -> None:
    """eventlet and Swift ignore it, so the storlet must not get a part only."""
    data = b"x" * 300_000
    environ = {
        "wsgi.input": io.BytesIO(data),
        "CONTENT_LENGTH": "5",
        "HTTP_TRANSFER_ENCODING": "chunked",
    }
    assert b"".join(ClientBody(environ, 1.0)) == data


@pytest.mark.parametrize(
    ("refused", "denied", "expected"),
    [
        ([], [], BackendFailed),
        ([], ["answer"], AccessDenied),
        ([StorletError("by a rule", code="access.rule")], ["answer"], StorletError),
    ],
)
def test_a_short_body_has_the_reason_of_the_part_that_was_refused(
    refused: list[StorletError], denied: list[str], expected: type[StorletError]
) -> None:
    answer = SourceAnswer(200, {"Content-Length": "3"}, Body([b"ab"]))
    body = GuardedBody(answer, refused, denied)
    with pytest.raises(expected) as caught:
        list(body)
    assert not refused or caught.value is refused[0]


@pytest.mark.parametrize(("length", "is_whole"), [(2, True), (1, False), (3, False)])
def test_a_body_without_a_length_is_compared_with_the_one_that_is_found(
    length: int, is_whole: bool
) -> None:
    body = GuardedBody(SourceAnswer(200, {}, Body([b"a", b"b"])), [], find_length=lambda: length)
    found = []
    with contextlib.nullcontext() if is_whole else pytest.raises(BackendFailed, match="2 of"):
        found = list(body)
    assert found == ([b"a", b"b"] if is_whole else [])


def test_a_body_of_which_no_length_can_be_found_is_not_read() -> None:
    chunks = Body([b"ab"])
    with pytest.raises(BackendFailed, match="no length"):
        list(GuardedBody(SourceAnswer(200, {}, chunks), []))


def test_a_complete_body_is_given_although_the_caller_may_not_read_something_else() -> None:
    answer = SourceAnswer(200, {"Content-Length": "2"}, Body([b"ab"]))
    assert list(GuardedBody(answer, [], ["answer"])) == [b"ab"]
