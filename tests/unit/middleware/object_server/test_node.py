"""node.py and framed_run.py: an object node's answers, with files and a worker on real sockets."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import eventlet
import pytest
from swift.common.swob import Request, Response

from storlet_daemon.protocol import messages
from storlet_middleware.backend import frames
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import StorletError
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.proxy.result import RemoteResult
from storlet_middleware.wsgi.byte_ranges import ByteRange
from tests.unit.middleware.support import (
    Logger,
    Node,
    WorkerRun,
    make_config,
    open_descriptors,
    wait_until,
)

GULP = 4096
CODE = b"class Up: pass"
VERSION = StorletVersion(
    "AUTH_test",
    "up.py",
    "python",
    "",
    "up.Up",
    (CodeFile("storlet", "up.py", "c9bf8a8ff03f2b8b6cd85f0c1e6a1bd5", "1", len(CODE), 0o444),),
)


class Reader:
    """Like Swift's disk file reader: yields chunks, holds the file in ``_fp``."""

    def __init__(self, path: Path) -> None:
        self._fp = path.open("rb")

    def __iter__(self) -> Iterator[bytes]:
        yield self._fp.read()

    def close(self) -> None:
        self._fp.close()


class ObjectServer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.headers = {
            "X-Object-Meta-Color": "grün".encode().decode("latin-1"),
            "Etag": "source",
            "X-Timestamp": "1",
        }
        self.status = 200

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        if self.status != 200:
            return Response(status=self.status, request=request)(environ, start_response)
        answer = Response(request=request, headers=self.headers, app_iter=Reader(self.path))
        answer.content_length = self.path.stat().st_size
        return answer(environ, start_response)


class Fixture:
    def __init__(self, node: Node, short_dir: Path) -> None:
        path = short_dir / "o.data"
        path.write_bytes(b"hello")
        self.server = ObjectServer(path)
        self.logger = Logger()
        self.node = node
        config = make_config(short_dir, placement__heartbeat_seconds="0.2")
        self.filter = ObjectNode(self.server, config, self.logger)
        (node.code_dir / VERSION.key).mkdir()  # the code is cached on the node

    def configure(self, short_dir: Path, **options: str) -> None:
        self.filter = ObjectNode(self.server, make_config(short_dir, **options), self.logger)

    def start(
        self,
        ranges: tuple[ByteRange, ...] = (),
        headers: dict[str, str] | None = None,
        log: bool = False,
    ) -> Any:
        wanted = BackendInvocation("tx-1", VERSION, {"k": "ü"}, ranges, log, GULP)
        request = Request.blank(
            "/sda/1/AUTH_test/c/o", headers={**(wanted.to_headers() or {}), **(headers or {})}
        )
        return request.get_response(self.filter)

    def read(
        self, ranges: tuple[ByteRange, ...] = (), log: bool = False
    ) -> tuple[bytes, RemoteResult]:
        result = RemoteResult(self.start(ranges, log=log))
        try:
            result.first()
            return b"".join(result.chunks()), result
        finally:
            result.close()


@pytest.fixture
def at(node: Node, short_dir: Path) -> Iterator[Fixture]:
    eventlet.sleep()
    before = open_descriptors()
    yield Fixture(node, short_dir)
    node.workers.settle()
    assert wait_until(lambda: open_descriptors() <= before)


def test_the_objects_file_is_donated_and_the_answer_is_framed(at: Fixture) -> None:
    data, result = at.read()
    assert (data, result.usage.as_header()) == (
        b"HELLO",
        "cpu=0.250000;peak-memory=4096;in=5;out=5",
    )
    invoke = at.node.workers.runs[0].invoke
    assert (invoke.parameters, invoke.inputs[0].metadata) == ({"k": "ü"}, {"Color": "grün"})


def test_a_framed_answer_is_marked_and_has_an_etag_of_its_own(at: Fixture) -> None:
    at.server.headers |= {"Accept-Ranges": "bytes"}
    etags = set()
    for _ in range(2):
        answer = at.start()
        assert answer.headers["X-Backend-Storlet-Run"] == frames.VERSION
        assert answer.content_length == len(b"".join(answer.app_iter)) > 5
        assert "Accept-Ranges" not in answer.headers
        etags.add(answer.headers["Etag"])
    # Swift's proxy server resumes a broken body only if the ETag is the same.
    assert len(etags) == 2
    assert "source" not in etags


@pytest.mark.parametrize(
    "header",
    [
        "X-Static-Large-Object",
        "X-Object-Manifest",
        "X-Object-Sysmeta-Symlink-Target",
        "X-Object-Sysmeta-Ec-Frag-Index",
        "X-Object-Sysmeta-Crypto-Body-Meta",
        "X-Object-Transient-Sysmeta-Crypto-Meta",
    ],
)
def test_an_object_that_is_not_plain_is_answered_unchanged(at: Fixture, header: str) -> None:
    at.server.headers[header] = "x"
    answer = at.start()
    assert "X-Backend-Storlet-Run" not in answer.headers
    assert answer.body == b"hello"
    assert at.node.workers.runs == []


@pytest.mark.parametrize("status", [304, 404, 412, 507])
def test_other_answers_of_the_object_server_are_unchanged(at: Fixture, status: int) -> None:
    at.server.status = status
    assert at.start().status_int == status


def test_a_request_that_resumes_a_broken_body_is_refused(at: Fixture) -> None:
    answer = at.start(headers={"Range": "bytes=100-"})
    assert answer.status_int == 409
    assert at.node.workers.runs == []


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_conditions_on_the_etag_are_evaluated_by_swift(at: Fixture, header: str) -> None:
    answer = at.start(headers={header: '"x"'})
    assert "X-Backend-Storlet-Run" not in answer.headers
    answer.app_iter.close()


def test_a_broken_description_runs_nothing(at: Fixture) -> None:
    request = Request.blank("/sda/1/a/c/o", headers={"X-Backend-Storlet-Invocation": "3"})
    assert request.get_response(at.filter).body == b"hello"
    assert "description of an invocation is broken" in at.logger.text


def test_requests_without_a_description_are_unchanged(at: Fixture) -> None:
    assert Request.blank("/sda/1/a/c/o").get_response(at.filter).body == b"hello"


def test_each_range_is_one_input(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        for fd, item in zip(worker.inputs, worker.invoke.inputs, strict=True):
            assert item.start is not None
            assert item.end is not None
            os.lseek(fd, item.start, os.SEEK_SET)
            worker.write(os.read(fd, item.end - item.start + 1) + b"|")
        worker.succeed()

    at.node.workers.script = script
    assert at.read(((0, 1), (3, None), (None, 2)))[0] == b"he|lo|lo|"
    data, result = at.read(((1, 99),))
    assert (data, result.span) == (b"ello|", (1, 4, 5))


@pytest.mark.parametrize("ranges", [((5, None),), ((0, 1), (9, 10))])
def test_a_range_outside_the_object_runs_nothing(
    at: Fixture, ranges: tuple[ByteRange, ...]
) -> None:
    with pytest.raises(Exception, match="in the range"):
        at.read(ranges)
    assert at.node.workers.runs == []


def test_a_failure_is_in_the_last_frame_after_the_log(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        os.write(worker.log, b"last words\n")
        worker.begin()
        worker.write(b"half")
        worker.fail(traceback="Traceback")

    at.node.workers.script = script
    answer = at.start(log=True)
    assert answer.status_int == 200
    result = RemoteResult(answer)
    with pytest.raises(Exception, match="ValueError: no") as caught:
        result.first()
    assert (caught.value.code, caught.value.detail) == ("storlet.failed", "Traceback")
    assert result.log == b"last words\n"
    result.close()
    assert "ValueError" not in at.logger.text


def test_heartbeats_of_a_silent_storlet_fill_chunks_of_the_proxy(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        time.sleep(1.5)
        worker.begin()
        worker.write(b"x")
        worker.succeed()

    at.node.workers.script = script
    chunks = list(at.start().app_iter)
    beats = [chunk for chunk in chunks if len(chunk) == GULP and chunk[0] == frames.PAD]
    assert len(beats) >= 2
    decoder = frames.Decoder()
    assert [kind for chunk in chunks for kind, _ in decoder.feed(chunk)] == [
        frames.START,
        frames.DATA,
        frames.DONE,
    ]


def test_an_answer_that_begins_before_its_end_has_no_length(at: Fixture) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 10_000)
        worker.succeed()

    at.node.workers.script = script
    answer = at.start()
    assert "Content-Length" not in answer.headers
    result = RemoteResult(answer)
    result.first()
    assert b"".join(result.chunks()) == b"x" * 10_000
    result.close()


def test_slow_output_is_padded_to_a_chunk_of_the_proxy(at: Fixture) -> None:
    flushed = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"first")
        flushed.wait(10)
        worker.write(b"second")
        worker.succeed()

    at.node.workers.script = script
    sent = 0
    answer = at.start()
    chunks = iter(answer.app_iter)
    for chunk in chunks:
        sent += len(chunk)
        if b"first" in chunk:
            break
    while sent % GULP:
        chunk = next(chunks)
        assert b"second" not in chunk
        sent += len(chunk)
    flushed.set()
    assert b"second" in b"".join(chunks)
    answer.app_iter.close()


@pytest.mark.parametrize("read", [0, 1, 2])
def test_closing_the_answer_at_any_time_cancels_and_closes_all_descriptors(
    at: Fixture, read: int
) -> None:
    cancelled: list[bool] = []

    def script(worker: WorkerRun) -> None:
        with contextlib.suppress(OSError):
            worker.begin()
            worker.write(b"x")
        cancelled.append(worker.wait_for_cancel())

    at.node.workers.script = script
    before = open_descriptors()
    answer = at.start()
    chunks = iter(answer.app_iter)
    for _ in range(read):
        next(chunks)
    answer.app_iter.close()
    assert wait_until(lambda: open_descriptors() <= before)
    assert read == 0 or wait_until(lambda: cancelled == [True])


def test_an_internal_error_is_reported_and_logged(at: Fixture) -> None:
    del at.server.headers["X-Timestamp"]
    at.filter._context = replace(at.filter._context, launcher=None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="internal error") as caught:
        at.read()
    assert caught.value.status == 500
    assert "ERROR storlets" in at.logger.text


def test_a_description_survives_its_headers_unless_it_is_too_long() -> None:
    wanted = BackendInvocation("tx-1", VERSION, {"k": "ü" * 3000}, ((1, None),), True, GULP)
    headers = wanted.to_headers()
    assert headers is not None
    assert len(headers) > 1
    assert all(value.isascii() and len(value) < 8000 for value in headers.values())
    environ = {"HTTP_" + key.upper().replace("-", "_"): value for key, value in headers.items()}
    assert BackendInvocation.from_environ(environ) == wanted
    assert (
        BackendInvocation("tx-1", VERSION, {"k": "x" * 50000}, (), False, GULP).to_headers() is None
    )
    assert BackendInvocation.from_environ({}) is None
    with pytest.raises(ValueError, match="X-Backend-Storlet-Invocation"):
        BackendInvocation.from_environ({"HTTP_X_BACKEND_STORLET_INVOCATION": "1"})


@pytest.mark.parametrize(
    ("own", "declared", "requested", "memory", "is_ok"),
    [
        ("1K", {}, {}, 512, True),
        ("4", {}, {}, 512, False),
        ("1K", {"Output": 4}, {}, 512, False),
        ("1K", {"Output": 4000}, {"Output": 4.0, "Memory": float(1 << 26)}, 64, False),
        ("5", {"Output": 4000, "Memory": 1 << 27}, {"Output": 4000.0, "Nonsense": 1.0}, 128, True),
        ("1K", {"Memory": 1 << 40}, {"Memory": float(1 << 41)}, 512, True),
    ],
)
def test_a_node_applies_its_own_maxima_to_the_limits_of_the_request(  # noqa: PLR0917
    at: Fixture,
    short_dir: Path,
    own: str,
    declared: dict[str, float],
    requested: dict[str, float],
    memory: int,
    is_ok: bool,
) -> None:
    at.configure(short_dir, limits__output_bytes=own)
    version = replace(VERSION, limits=declared)
    wanted = BackendInvocation("tx-1", version, {}, (), False, GULP, requested)
    request = Request.blank("/sda/1/AUTH_test/c/o", headers=wanted.to_headers() or {})
    result = RemoteResult(request.get_response(at.filter))
    code = ""
    try:
        result.first()
        assert b"".join(result.chunks()) == b"HELLO"
    except StorletError as error:
        code = error.code
    finally:
        result.close()
    assert code == ("" if is_ok else "storlet.limit.output")
    (acquire,) = [message for message in at.node.asked if isinstance(message, messages.Acquire)]
    assert acquire.storlet.limits.memory_bytes == memory << 20
