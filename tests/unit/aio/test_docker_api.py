"""The small client of the Docker engine, against a socket that answers what we say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_middleware.aio.docker_api import DockerApi
from storlet_middleware.aio.progress import AioError

Serve = Callable[[bytes], DockerApi]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A Docker engine that sends the same response to every request."""
    listening = socket.socket(socket.AF_UNIX)
    path = Path(f"/tmp/{tmp_path.name}-{id(tmp_path):x}.sock")
    listening.bind(str(path))
    listening.listen()
    answers: list[bytes] = []

    def loop() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answers[0])

    threading.Thread(target=loop, daemon=True).start()

    def with_answer(answer: bytes) -> DockerApi:
        answers.append(answer)
        return DockerApi(f"unix://{path}")

    yield with_answer
    listening.close()
    path.unlink()


def http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


def test_an_engine_that_responds_is_usable(serve: Serve) -> None:
    assert serve(http(200, b"OK")).answers()


def test_no_socket_and_a_dead_socket_are_no_engine(tmp_path: Path) -> None:
    assert not DockerApi(f"unix://{tmp_path}/none").answers()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "d"))
    dead.close()
    assert not DockerApi(f"unix://{tmp_path}/d").answers()


def test_a_remote_engine_is_refused() -> None:
    with pytest.raises(AioError, match="unix://"):
        DockerApi("tcp://10.0.0.1:2375")


def test_an_image_that_is_missing_is_none(serve: Serve) -> None:
    assert serve(http(404, b'{"message": "No such image"}')).image_id("x:y") is None


def test_an_error_in_the_middle_of_a_good_answer_is_an_error(serve: Serve) -> None:
    stream = b'{"stream": "Step 1/2"}\r\n{"errorDetail": {"message": "boom"}, "error": "boom"}\r\n'
    with pytest.raises(AioError, match="boom"):
        serve(http(200, stream)).build([b"tar"], "x:y", {})


def test_removing_a_missing_object_succeeds(serve: Serve) -> None:
    serve(http(404, b"{}")).remove("abc")


def test_a_refusal_shows_the_engines_words(serve: Serve) -> None:
    with pytest.raises(AioError, match="disk full"):
        serve(http(500, b'{"message": "disk full"}')).remove("abc")
