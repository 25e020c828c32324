"""The Docker wrapper against an HTTP server on a Unix socket that responds, refuses, hangs or
ends."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.sandboxd import docker
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    ImageMissing,
    NameTaken,
)
from tests.unit.sandboxd.doubles import collect_connections

Answer = tuple[int, Any]


class FakeApi(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers by ``answers["METHOD /path"]``; every request is noted."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.requests: list[str] = []
        self.delay_seconds = 0.0
        self.connections: list[socket.socket] = []
        super().__init__(str(path), Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        request = super().get_request()
        self.connections.append(request[0])
        return request

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that gave up is what a test is about."""

    def stop(self) -> None:
        """End with every connection, as a killed Docker does."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def answer(self, line: str) -> Answer:
        if line.endswith("/version"):
            return 200, {"ApiVersion": "1.41"}
        self.requests.append(line)
        time.sleep(self.delay_seconds)
        found = self.answers.get(line, (404, {"message": "no such thing"}))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found


class Handler(http.server.BaseHTTPRequestHandler):
    """One request of docker-py."""

    server: FakeApi
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: object) -> None:
        """Nothing."""

    def respond(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0].removeprefix("/v1.41")
        status, body = self.server.answer(f"{self.command} {path}")
        data = b"" if status == 204 else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = respond  # noqa: N815


MakeApi = Callable[[], FakeApi]


@pytest.fixture
def path() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="sd-", dir="/tmp"))
    yield directory / "docker.sock"
    shutil.rmtree(directory)


@pytest.fixture
def api(path: Path) -> Iterator[FakeApi]:
    server = FakeApi(path)
    yield server
    server.stop()


@pytest.fixture
def engine(path: Path) -> Iterator[docker.Engine]:
    made = docker.Engine(f"unix://{path}")
    yield made
    made.close()
    collect_connections()


def test_a_missing_docker_is_reported_at_once(engine: docker.Engine) -> None:
    began = time.monotonic()
    with pytest.raises(EngineUnavailable, match="No such file"):
        engine.image_id("image")
    assert time.monotonic() - began < 5


def test_a_hung_docker_is_reported_after_the_quick_deadline(
    engine: docker.Engine, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "QUICK_SECONDS", 0.2)
    api.delay_seconds = 3.0
    began = time.monotonic()
    with pytest.raises(EngineUnavailable, match="does not answer"):
        engine.image_id("image")
    assert time.monotonic() - began < 2.5


def test_a_restarted_docker_needs_no_help(engine: docker.Engine, path: Path) -> None:
    for number in range(3):
        server = FakeApi(path)
        server.answers["GET /images/image/json"] = (200, {"Id": f"sha256:{number}"})
        assert engine.image_id("image") == f"sha256:{number}"
        server.stop()
        path.unlink()


def test_a_missing_image_has_its_own_fault(engine: docker.Engine, api: FakeApi) -> None:
    with pytest.raises(ImageMissing, match="sandbox:latest"):
        engine.image_id("sandbox:latest")


def test_start_creates_then_starts(engine: docker.Engine, api: FakeApi) -> None:
    api.answers["POST /containers/create"] = (201, {"Id": "c1"})
    api.answers["POST /containers/c1/start"] = (204, None)
    assert engine.start("name", {"Image": "i"}) == "c1"
    assert api.requests == ["POST /containers/create", "POST /containers/c1/start"]


def test_a_taken_name_has_its_own_fault(engine: docker.Engine, api: FakeApi) -> None:
    api.answers["POST /containers/create"] = (409, {"message": "name in use"})
    with pytest.raises(NameTaken):
        engine.start("name", {"Image": "i"})


def test_a_container_that_does_not_start_is_removed_again(
    engine: docker.Engine, api: FakeApi
) -> None:
    api.answers["POST /containers/create"] = (201, {"Id": "c1"})
    api.answers["POST /containers/c1/start"] = (500, {"message": "bad\nmount"})
    api.answers["DELETE /containers/c1"] = (204, None)
    with pytest.raises(EngineFault, match=r"bad\\nmount"):
        engine.start("name", {"Image": "i"})
    assert api.requests[-1] == "DELETE /containers/c1"


def test_a_removal_waits_for_one_that_is_under_way(engine: docker.Engine, api: FakeApi) -> None:
    busy = (409, {"message": "removal is already in progress"})
    api.answers["DELETE /containers/c1"] = [busy, busy, (404, {"message": "gone"})]
    engine.remove("c1")
    assert len(api.requests) == 3


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"Running": True, "Status": "running"}, None),
        ({"Running": False, "Status": "created"}, None),
        ({"Running": False, "Status": "exited", "ExitCode": 137}, "exit code 137"),
        (
            {"Running": False, "Status": "exited", "ExitCode": 137, "OOMKilled": True},
            "killed for lack of memory",
        ),
    ],
)
def test_the_end_of_a_container_is_described(
    engine: docker.Engine, api: FakeApi, state: object, expected: str | None
) -> None:
    api.answers["GET /containers/c1/json"] = (200, {"State": state})
    assert engine.end_of("c1") == expected


def test_a_removed_container_has_ended(engine: docker.Engine, api: FakeApi) -> None:
    assert engine.end_of("c1") == "the container was removed"


def test_our_containers_are_listed_with_their_labels(engine: docker.Engine, api: FakeApi) -> None:
    labels = {"org.storlets": "n", "org.storlets.account": "AUTH_a"}
    entry = {
        "Id": "c1",
        "Names": ["/storlet-n-k"],
        "Labels": labels,
        "State": "running",
        "ImageID": "i",
        "Created": 5,
    }
    api.answers["GET /containers/json"] = (200, [entry])
    assert engine.ours("n") == [docker.Container("c1", "storlet-n-k", labels, True, "i", 5.0)]
    assert engine.ours("n")[0].node_id == "n"
