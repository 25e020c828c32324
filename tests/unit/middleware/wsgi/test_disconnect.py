"""disconnect.py and answers that break, behind eventlet's own server and real TCP connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import eventlet
import eventlet.wsgi
import pytest

from storlet_middleware.concurrency import end, spawn
from storlet_middleware.wsgi.disconnect import CANCELLATION, Cancellation, ClientGone, ClientWatch
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import (
    ACCOUNT,
    FakeSwift,
    Proxy,
    WorkerRun,
    authorize,
    wait_until,
)

#: Set when the client has read the storlet's output before its failure.
HALF_CAME = threading.Event()

#: The file name by which the product finds a thread that holds a pooled connection.
MEMCACHED = "/x/site-packages/swift/common/memcached.py"

Make = Callable[..., Proxy]
Serve = Callable[[Proxy], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    listeners: list[Any] = []
    tasks: list[Any] = []

    def start(proxy: Proxy) -> int:
        def app(environ: dict[str, Any], start_response: Any) -> Any:
            environ.update({"swift.authorize": authorize, "REMOTE_USER": "test:tester"})
            return proxy.filter(environ, start_response)

        listener = eventlet.listen(("127.0.0.1", 0))
        listeners.append(listener)
        tasks.append(
            eventlet.spawn(
                eventlet.wsgi.server, listener, app, log=QuietLog(), minimum_chunk_size=1
            )
        )
        port: int = listener.getsockname()[1]
        return port

    yield start
    for task in tasks:
        task.kill()
    for listener in listeners:
        listener.close()


class QuietLog(Logger):
    def write(self, text: str) -> None: ...


def send_request(
    port: int, version: str = "1.1", method: str = "GET", more: str = "", body: bytes = b""
) -> Any:
    client = socket.create_connection(("127.0.0.1", port))
    client.setblocking(False)  # a green socket shows a reset as an orderly end
    head = f"{method} /v1/{ACCOUNT}/c/o HTTP/{version}\r\nHost: x\r\nX-Run-Storlet: up.py\r\n"
    head += f"Connection: close\r\n{more}\r\n"
    client.sendall(head.encode() + body)
    return client


def read(client: socket.socket) -> tuple[bytes, bool]:
    """The received bytes, and True if the connection was reset."""
    data = b""
    with client, eventlet.Timeout(20):
        while True:
            try:
                piece = client.recv(65536)
            except BlockingIOError:
                eventlet.sleep(0.01)
            except ConnectionResetError:
                return data, True
            else:
                data += piece
                if b"half" in data:
                    HALF_CAME.set()
                if not piece:
                    return data, False


def test_a_complete_answer_ends_with_its_last_chunk(
    make_proxy: Callable[..., Proxy], serve: Serve
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"HELLO")
        time.sleep(0.2)
        worker.succeed()

    data, was_reset = read(send_request(serve(make_proxy(script))))
    assert b"HELLO" in data
    assert data.endswith(b"0\r\n\r\n")
    assert not was_reset


def slow_failure(worker: WorkerRun) -> None:
    HALF_CAME.clear()
    worker.begin()
    worker.write(b"half")
    HALF_CAME.wait(10)
    worker.fail()


def test_a_broken_answer_has_no_last_chunk(make_proxy: Make, serve: Serve) -> None:
    data, _ = read(send_request(serve(make_proxy(slow_failure))))
    assert b"200 OK" in data
    assert not data.endswith(b"0\r\n\r\n")


def test_a_broken_answer_to_an_http_1_0_client_is_a_reset(make_proxy: Make, serve: Serve) -> None:
    data, was_reset = read(send_request(serve(make_proxy(slow_failure)), "1.0"))
    assert b"200 OK" in data
    assert was_reset


def test_an_early_failure_keeps_its_status_on_the_wire(make_proxy: Make, serve: Serve) -> None:
    data, _ = read(send_request(serve(make_proxy(failing())), "1.0"))
    assert data.startswith(b"HTTP/1.1 422 Unprocessable Entity")
    assert b"X-Storlet-Error: storlet.failed" in data.replace(
        b"x-storlet-error", b"X-Storlet-Error"
    )


@pytest.mark.parametrize("after", [b"", b"some"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_disconnect_during_a_silent_storlet_is_detected_within_a_second(
    make_proxy: Make, serve: Serve, method: str, after: bytes
) -> None:
    cancelled: list[float] = []

    def script(worker: WorkerRun) -> None:
        worker.begin()
        if after:
            worker.write(after)
        if worker.wait_for_cancel():
            cancelled.append(time.monotonic())

    proxy = make_proxy(script)
    client = send_request(
        serve(proxy),
        method=method,
        more="Content-Length: 2\r\n" if method == "PUT" else "",
        body=b"",
    )
    assert wait_until(lambda: bool(proxy.filter._proxy._inflight))
    eventlet.sleep(0.2)
    client.close()
    left = time.monotonic()
    assert wait_until(lambda: bool(cancelled))
    # With an empty body, the promised time; else with a margin for slow machines.
    assert cancelled[0] - left < (3 if after else 1.2)
    assert wait_until(lambda: not proxy.filter._proxy._inflight)


def test_a_disconnect_during_the_commit_of_a_put_is_no_failure(
    make_proxy: Make, serve: Serve, swift: FakeSwift
) -> None:
    begun: list[bool] = []

    def put(request: Any) -> Any:
        answer = swift.respond(request)
        begun.append(True)
        eventlet.sleep(1)
        return answer

    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = put
    proxy = make_proxy()
    client = send_request(serve(proxy), method="PUT", more="Content-Length: 5\r\n", body=b"hello")
    assert wait_until(lambda: bool(begun))
    client.close()
    assert wait_until(lambda: not proxy.filter._proxy._inflight)
    assert swift.containers["c"].objects["o"].body == b"HELLO"
    assert "code=ok" in proxy.logger.text


def test_a_disconnect_is_raised_only_after_swift_returns_a_pooled_connection() -> None:
    """Swift's memcache client would never return the connection to its pool of sixteen.

    With an empty pool no token can be checked.
    """
    here, there = socket.socketpair()
    there.close()
    seen: list[str] = []
    source = "def get(wait):\n    wait(0.6)\n    returned.append('connection')\n"
    memcached: dict[str, Any] = {"returned": seen}
    exec(compile(source, MEMCACHED, "exec"), memcached)  # noqa: S102

    class Input:
        def get_socket(self) -> socket.socket:
            return here

    def request() -> None:
        watch = ClientWatch({"eventlet.input": Input()})
        try:
            memcached["get"](eventlet.sleep)
            eventlet.sleep(5)
        except ClientGone:
            seen.append("gone")
        finally:
            watch.stop()

    with here, eventlet.Timeout(5):
        eventlet.spawn(request).wait()
    assert seen == ["connection", "gone"]


def test_a_request_of_a_storlet_ends_when_its_run_has_ended() -> None:
    outer = Cancellation()
    seen: list[str] = []

    def request() -> None:
        watch = ClientWatch({CANCELLATION: Cancellation(outer)})
        try:
            eventlet.sleep(20)
        except ClientGone:
            seen.append("gone")
        finally:
            watch.stop()

    with eventlet.Timeout(10):
        task = eventlet.spawn(request)
        eventlet.sleep(0)
        outer.cancel()
        task.wait()
    assert seen == ["gone"]


def test_a_watch_of_a_task_that_has_ended_does_nothing() -> None:
    cancellation = Cancellation()
    watches: list[ClientWatch] = []
    eventlet.spawn(lambda: watches.append(ClientWatch({CANCELLATION: cancellation}))).wait()
    cancellation.cancel()
    eventlet.sleep(0.4)
    assert watches[0]._timer is None


def test_a_task_is_ended_only_after_it_returns_a_pooled_connection() -> None:
    seen: list[str] = []
    source = "def get(wait):\n    wait(0.1)\n    returned.append('connection')\n"
    memcached: dict[str, Any] = {"returned": seen}
    exec(compile(source, MEMCACHED, "exec"), memcached)  # noqa: S102

    def work() -> None:
        memcached["get"](eventlet.sleep)
        eventlet.sleep(5)
        seen.append("never")

    task = spawn(work)
    eventlet.sleep(0)
    with eventlet.Timeout(3):
        end(task)
    assert (seen, task.dead) == (["connection"], True)
