"""Calls of one storlet by another, as authors see them."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from storlet_daemon.author import services


class Store:
    """A :class:`services.Channel` whose storlets give ``data``, or fail."""

    def __init__(self) -> None:
        self.data = b"result"
        self.failure: services.ServiceError | None = None
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.written = b""

    def ask(self, operation: str, fields: Mapping[str, Any]) -> services.Answer:
        self.asked.append((operation, dict(fields)))
        if "path" not in fields:
            self.reading, writing = socket.socketpair()
            return services.Answer(1, {}, writing.detach())
        return self._answer(fields)

    def further_answer(self, answer: services.Answer) -> services.Answer:
        if self.failure is not None:
            raise self.failure
        with self.reading:
            self.reading.settimeout(10)
            while piece := self.reading.recv(65536):
                self.written += piece
        return self._answer(self.asked[0][1])

    def _answer(self, fields: Mapping[str, Any]) -> services.Answer:
        if "output" in fields:
            return services.Answer(1, {"size": 6, "etag": "e"})
        fd = os.memfd_create("result")
        os.write(fd, self.data)
        os.lseek(fd, 0, os.SEEK_SET)
        return services.Answer(1, {"metadata": {"k": "v"}, "content_type": "text/x"}, fd)

    def end_of(self, answer: services.Answer) -> int:
        if self.failure is not None:
            raise self.failure
        return 6


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    services.begin(store)
    yield store
    services.end()


def test_the_result_of_a_call_is_a_file(store: Store) -> None:
    with services.call("a.py", "/c/o") as result:
        assert result.read() == b"result"
        assert (result.metadata, result.content_type) == ({"k": "v"}, "text/x")
        assert not result.seekable()
    assert store.asked == [("call", {"storlet": "a.py", "path": "/c/o"})]


def test_parameters_and_ranges_are_in_the_request(store: Store) -> None:
    services.call("a.py", "/c/o", {"a": "b"}, [(0, 9), (20, None)]).close()
    (_, fields) = store.asked[0]
    assert fields["parameters"] == {"a": "b"}
    assert fields["ranges"] == [{"start": 0, "end": 9}, {"start": 20}]


def test_with_an_output_the_facts_of_the_object_are_returned(store: Store) -> None:
    stored = services.call("a.py", "/c/o", output="/d/p")
    assert isinstance(stored, services.Stat)
    assert (stored.size, stored.etag) == (6, "e")


def test_a_result_that_is_short_is_an_error_and_no_end(store: Store) -> None:
    store.data = b"resu"
    with services.call("a.py", "/c/o") as result, pytest.raises(services.ServiceError) as caught:
        result.read()
    assert caught.value.code == "services.short"


def test_a_storlet_that_fails_after_its_first_bytes_fails_the_read(store: Store) -> None:
    store.failure = services.error_of("call of a.py: why", "storlet.failed", 422, "a.py")
    with services.call("a.py", "/c/o") as result, pytest.raises(services.CallFailed) as caught:
        result.read()
    failure = caught.value
    assert (failure.code, failure.status, failure.storlet) == ("storlet.failed", 422, "a.py")


def frames(*pieces: bytes) -> bytes:
    return b"".join(len(piece).to_bytes(4, "big") + piece for piece in (*pieces, b""))


@pytest.mark.parametrize(
    "source", [b"hello", bytearray(b"hello"), memoryview(b"hello"), io.BytesIO(b"hello")]
)
def test_data_is_written_in_frames_with_an_end(store: Store, source: Any) -> None:
    with services.call("a.py", source) as result:
        assert result.read() == b"result"
    assert store.asked == [("call", {"storlet": "a.py"})]
    assert store.written == frames(b"hello")


def test_a_large_file_is_written_in_pieces(store: Store) -> None:
    stored = services.call("a.py", io.BytesIO(b"x" * 150_000), output="/c/p")
    assert isinstance(stored, services.Stat)
    assert store.written == frames(b"x" * 65536, b"x" * 65536, b"x" * 18_928)


def test_a_file_that_cannot_be_read_leaves_no_end_and_raises_its_error(store: Store) -> None:
    class Broken:
        def read(self, size: int, /) -> bytes:
            raise ValueError("broken")

    store.failure = services.error_of("it is incomplete", "input.incomplete", 499)
    with pytest.raises((ValueError, services.ServiceError)):
        services.call("a.py", Broken())
    with store.reading:
        store.reading.settimeout(10)
        assert store.reading.recv(10) == b""


def test_the_end_of_the_run_ends_what_is_being_written(store: Store) -> None:
    """Nothing reads the data, and the run ends with an exception of the storlet."""
    store.failure = services.error_of("it failed", "storlet.failed", 422, "a.py")
    with pytest.raises(services.CallFailed):
        services.call("a.py", b"x" * 10_000_000)
    services.end()
    for writer in [*services._writers]:
        writer._thread.join(10)
        assert not writer._thread.is_alive()
    store.reading.close()


def test_a_storlet_is_called_on_a_path_or_on_data(store: Store) -> None:
    with pytest.raises(TypeError, match="on a path, bytes or a binary file"):
        services.call("a.py", 7)  # type: ignore[arg-type]
    assert not store.asked
